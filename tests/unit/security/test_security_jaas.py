"""JAAS configuration: one entry in a property, sections in a file, and the errors of Kafka."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.jaas import JaasError, login_module, login_options, login_sections

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (";", {}),
        ('username="a b" password=secret;', {"username": "a b", "password": "secret"}),
        ('username = "alice"\n  password = "x";', {"username": "alice", "password": "x"}),
        (r'password="sec\"ret\\" username="a";', {"password": 'sec"ret\\', "username": "a"}),
        ('username="" password="";', {"username": "", "password": ""}),
        ('password="username=x; y" username="a";', {"password": "username=x; y", "username": "a"}),
        ('user_alice="a" user_bob="b";', {"user_alice": "a", "user_bob": "b"}),
        ('my.username="other" username="a";', {"my.username": "other", "username": "a"}),
        ('username="a" username="b";', {"username": "b"}),
        ("username='a\"b';", {"username": 'a"b'}),
        (r'a="\n\t\101\0611\48\x";', {"a": "\n\tA11\x048x"}),
        ('a=b // password="x"\n c=d /* e="f"\n */;', {"a": "b", "c": "d"}),
        ("a=s3cret-x.y_$;", {"a": "s3cret-x.y_$"}),
        ("a=ünlaut;", {"a": "ünlaut"}),
        ("a=b/c is a comment\n;", {"a": "b"}),
        ('"a b"=c;', {"a b": "c"}),
        ('a="x\n;', {"a": "x"}),
    ],
)
def test_options_are_found_by_name(options: str, found: dict[str, str]) -> None:
    assert login_options(f"{MODULE} {options}") == found


@pytest.mark.parametrize("flag", ["required", "Requisite", "SUFFICIENT", "optional"])
def test_the_flag_may_be_in_any_case(flag: str) -> None:
    module = login_module(f"a.B {flag};")
    assert (module.name, module.flag) == ("a.B", flag.lower())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        ("// only a comment", "Login module not specified in JAAS config"),
        ("; required;", "Login module not specified in JAAS config"),
        ("a.B", "Login module control flag not specified in JAAS config"),
        ("a.B ;", "Login module control flag is not available in the JAAS config"),
        ("a.B x;", "Invalid login module control flag 'x' in JAAS config"),
        ("a.B required k;", "Value not specified for key 'k' in JAAS config"),
        ("a.B required k=;", "Value not specified for key 'k' in JAAS config"),
        ("a.B required k=123;", "Value not specified for key 'k' in JAAS config"),
        ("a.B required k=-x;", "Value not specified for key 'k' in JAAS config"),
        ("a.B required k=.5;", "Value not specified for key 'k' in JAAS config"),
        ("a.B required k", "Value not specified for key 'k' in JAAS config"),
        ("a.B required =k;", "Value not specified for key 'null' in JAAS config"),
        ("a.B required k=v", "JAAS config entry not terminated by semi-colon"),
        ("a.B required k=a/b;", "JAAS config entry not terminated by semi-colon"),
        ("a.B required; c.D required;", "JAAS config property contains 2 login modules, should be 1 module"),
    ],
)
def test_errors_have_the_texts_of_kafka(text: str, message: str) -> None:
    with pytest.raises(JaasError) as raised:
        login_module(text)
    assert str(raised.value) == message


def test_a_file_has_sections_with_several_entries() -> None:
    sections = login_sections(
        """
        // brokers
        KafkaServer { a.B required k="v"; c.D optional; };
        sasl.KafkaServer { e.F required; };
        Empty { };
        """
    )
    assert {name: [module.name for module in modules] for name, modules in sections.items()} == {
        "KafkaServer": ["a.B", "c.D"],
        "sasl.KafkaServer": ["e.F"],
        "Empty": [],
    }
    assert sections["KafkaServer"][0].options == {"k": "v"}


@pytest.mark.parametrize(
    "text",
    [
        "KafkaServer",
        "KafkaServer x",
        "{ };",
        "KafkaServer { a.B required;",
        "KafkaServer { a.B required; }",
        "A { }; A { };",
    ],
)
def test_a_file_that_is_cut_off_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        login_sections(text)


def test_no_value_is_shown() -> None:
    assert "s3cret" not in repr(login_module('a.B required password="s3cret";'))


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (login_module, login_sections):
        with contextlib.suppress(JaasError):
            parse(text)


@given(
    st.dictionaries(
        st.from_regex(r"[a-zA-Z_$][\w.$-]*", fullmatch=True).filter(str.isascii),
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n")),
    )
)
def test_a_quoted_value_comes_back(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert login_options(f"{MODULE} {text};") == options


@pytest.mark.parametrize(
    "option",
    [
        "password=my s3cret;",
        'password="my"s3cret;',
        "password=my s3cret=;",
        "password=my s3cret=9;",
        "password=my s3cret",
        "password=my,s3cret;",
    ],
)
def test_the_rest_of_a_password_without_quotation_marks_is_not_shown(option: str) -> None:
    with pytest.raises(JaasError) as raised:
        login_module(f"a.B required {option}")
    assert "s3cret" not in str(raised.value)
