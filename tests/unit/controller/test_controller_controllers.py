"""The registrations of controllers."""

from __future__ import annotations

import uuid

import pytest

from kcli.controller.api import CONTROLLER_REGISTRATION, UPDATE_FEATURES
from kcli.errors import ErrorCode, UnsupportedVersionException
from kcli.metadata.image import ControllerRegistration, Endpoint, VersionRange
from kcli.protocol.messages import controller_registration as cr
from kcli.protocol.messages import update_features as uf
from rigs.controller import FEATURES, ControllerRig


def registration(controller_id: int, *, newest: int = 29, life: int = 1) -> cr.ControllerRegistrationRequest:
    return cr.ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=uuid.UUID(int=life),
        listeners=(cr.Listener(name="CONTROLLER", host="there", port=9093, security_protocol=1),),
        features=(
            cr.Feature(name="metadata.version", min_supported_version=7, max_supported_version=newest),
        ),
    )


def register(rig: ControllerRig, request: cr.ControllerRegistrationRequest) -> None:
    assert rig.obey(rig.decide(CONTROLLER_REGISTRATION, request)).error_code is ErrorCode.NONE


def test_endpoints_and_features_are_in_the_image() -> None:
    rig = ControllerRig()
    register(rig, registration(8))
    known = rig.image.controllers[8]
    assert known.incarnation_id == uuid.UUID(int=1)
    assert known.endpoints == {"CONTROLLER": Endpoint("CONTROLLER", "there", 9093, 1)}
    assert known.features == {"metadata.version": VersionRange(7, 29)}
    register(rig, registration(8, life=2))
    assert rig.image.controllers[8].incarnation_id == uuid.UUID(int=2)


def test_an_old_metadata_version_has_no_such_record() -> None:
    rig = ControllerRig({"metadata.version": 14})
    with pytest.raises(UnsupportedVersionException, match="too old to support controller registrations"):
        rig.decide(CONTROLLER_REGISTRATION, registration(8))
    own = ControllerRegistration(9, uuid.UUID(int=1), {}, {})
    assert rig.controller.register_controller(own) == ()
    assert len(ControllerRig().controller.register_controller(own)) == 1


def test_a_controller_that_does_not_support_a_level_stops_its_upgrade() -> None:
    rig = ControllerRig({**FEATURES, "metadata.version": 25})
    register(rig, registration(8, newest=26))
    update = uf.FeatureUpdateKey(feature="metadata.version", max_version_level=27, upgrade_type=1)
    refused = rig.obey(rig.decide(UPDATE_FEATURES, uf.UpdateFeaturesRequest(feature_updates=(update,))))
    assert refused.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert "Controller 8 only supports versions 7-26" in refused.error_message


def upgraded(rig: ControllerRig, name: str, level: int) -> str | None:
    """Raises the level of a feature. Returns the text of the error."""
    update = uf.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=1)
    response = rig.obey(rig.decide(UPDATE_FEATURES, uf.UpdateFeaturesRequest(feature_updates=(update,))))
    refused = response.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert refused or response.error_code is ErrorCode.NONE
    return response.error_message.partition("error: ")[2] if refused else None


def test_a_static_voter_that_has_not_registered_stops_an_upgrade() -> None:
    rig = ControllerRig({**FEATURES, "metadata.version": 25}, kraft_version=0, static_voters={1, 7, 8})
    for missing in (7, 8):
        assert upgraded(rig, "metadata.version", 26) == (
            "Invalid update version 26 for feature metadata.version. "
            f"controller {missing} has not registered, and may not support this feature"
        )
        register(rig, registration(missing))
    assert upgraded(rig, "metadata.version", 26) is None


def test_before_controllers_register_they_stop_no_upgrade() -> None:
    rig = ControllerRig({"metadata.version": 14}, kraft_version=0, static_voters={1, 7, 8})
    assert upgraded(rig, "metadata.version", 15) is None
    missing = "controller 7 has not registered, and may not support this feature"
    assert str(upgraded(rig, "metadata.version", 16)).endswith(missing)


def test_nodes_are_checked_before_the_missing_registrations() -> None:
    rig = ControllerRig({**FEATURES, "metadata.version": 25}, kraft_version=0, static_voters={1, 7, 8})
    rig.add_brokers(2)
    register(rig, registration(8, newest=25))
    refused = str(upgraded(rig, "metadata.version", 26))
    assert refused.endswith("Controller 8 only supports versions 7-25"), "controller 7 is checked last"
