"""The checklist is true: every rule that the code cites is on the page, and every test on the page exists."""

from __future__ import annotations

from collections import Counter

import pytest
from conformance import Rule, cited, codes_of, names_in, promises, rules, sections
from documentation import ROOT


def test_every_code_that_is_cited_is_on_the_page() -> None:
    known = {rule.code for rule in rules()} | sections()
    missing = {(code, where) for code, where in cited() if code not in known}
    assert not missing, "docs/conformance.md has no such rule"


def test_every_rule_is_on_the_page_once() -> None:
    times = Counter(rule.code for rule in rules())
    assert len(times) > 200, "the page is not read as it is written"
    assert [code for code, number in times.items() if number > 1] == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_every_rule_has_tests_that_exist_or_says_why_not(rule: Rule) -> None:
    assert rule.tests or rule.not_yet
    for test in rule.tests:
        file, _, name = test.partition("::")
        held = names_in(ROOT / "tests" / file)
        if name:
            assert name in held, f"{rule.code}: there is no {test}; run make conformance"
        else:
            found = {code for one in held for code in codes_of(one)}
            assert rule.code in found, f"{rule.code}: no test of {file} has the code; run make conformance"


def test_every_promise_has_tests_that_exist() -> None:
    kept = promises()
    assert len(kept) > 60, "the page is not read as it is written"
    for promise, tests in kept.items():
        assert tests, promise
        for file, _, name in (test.partition("::") for test in tests):
            assert name in names_in(ROOT / "tests" / file), f"{promise}: there is no {name} in {file}"


def test_a_test_s_name_says_its_rules() -> None:
    assert codes_of("test_n4_f10_a_zero_of_either_sign_is_found") == ["N4", "F10"]
    assert codes_of("test_f05_f07_a_process_killed") == ["F05", "F07"]
    assert codes_of("test_s3_is_a_store") == codes_of("test_v1_has_no_delete_manifests") == []
