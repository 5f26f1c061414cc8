"""The formats of record keys and values: conversion between bytes and Python values."""
