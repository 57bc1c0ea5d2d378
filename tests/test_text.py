"""Text that is safe in a terminal."""

import json
import re

from laddernet.text import visible, visible_json


def test_control_and_invisible_characters_are_escaped() -> None:
    assert visible("a\x1b[0m\u202e\x9b\x7f\udc80\tä\xa0") == "a\\x1b[0m\\u202e\\x9b\\x7f\\udc80\\tä\\xa0"


def test_json_keeps_its_meaning_when_it_is_escaped() -> None:
    held = {"a\x7f\x9b\u202e\udc80\U000e0001": "ü\n"}
    shown = visible_json(json.dumps(held, indent=2, ensure_ascii=False))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", shown)
    assert json.loads(shown) == held
    assert "ü" in shown
