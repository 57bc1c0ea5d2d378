"""Parts processed in threads: order, errors, and how many there are at a time."""

from collections.abc import Iterator

import pytest

from laddernet.table.ahead import processed


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_results_come_in_order_and_few_parts_exist_at_a_time(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.table.ahead.cores", lambda: cores)
    made = 0

    def parts() -> Iterator[int]:
        nonlocal made
        for number in range(100):
            made += 1
            yield number

    for number, result in enumerate(processed(lambda part: part * part, parts())):
        assert result == number * number
        assert made - number <= 3
    assert made == 100


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_comes_after_the_results_before_it(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.table.ahead.cores", lambda: cores)

    def parts() -> Iterator[int]:
        yield from (0, 1)
        raise ValueError("the third part is damaged")

    results = processed(str, parts())
    assert [next(results), next(results)] == ["0", "1"]
    with pytest.raises(ValueError, match="damaged"):
        next(results)
