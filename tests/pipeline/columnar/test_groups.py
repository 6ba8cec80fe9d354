"""Sums over groups, whether each possible key gets a place of its own or the keys are sorted."""

from __future__ import annotations

import numpy as np
import pytest

from famulus.pipeline.columnar import groups
from famulus.pipeline.columnar.groups import Groups, bucket_of


@pytest.mark.parametrize("places", [1 << 16, -(1 << 40)])
def test_groups_are_those_of_a_dictionary(places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_PLACES", places)
    rng = np.random.default_rng(1)
    minute, service, value = rng.integers(-2, 3, 200), rng.integers(-1, 4, 200), rng.integers(-5, 10**12, 200)
    where = rng.random(200) < 0.5
    where[service == 3] = False
    found = Groups([minute, service])
    keys = list(zip(minute.tolist(), service.tolist(), strict=True))
    assert found.count == len(set(keys))
    counts, sums, most, least = found.counts(where), found.sums(value, where), found.most(value, where), None
    least, histogram = found.least(value, where), found.histogram(value, where).to_pylist()
    for group, sample in enumerate(found.sample.tolist()):
        own = [int(each) for each, key, is_in in zip(value, keys, where, strict=True) if key == keys[sample] and is_in]
        assert (counts[group], sums[group]) == (len(own), sum(own))
        assert (most[group].as_py(), least[group].as_py()) == (max(own, default=None), min(own, default=None))
        buckets = bucket_of(np.array(own, np.int64)).tolist()
        assert histogram[group] == [{"bucket": each, "count": buckets.count(each)} for each in sorted(set(buckets))]


def test_nothing_has_no_groups() -> None:
    none = np.empty(0, np.int64)
    found = Groups([none, none])
    assert (found.count, len(found.counts(none.astype(bool))), len(found.histogram(none, none.astype(bool)))) == (
        0,
        0,
        0,
    )


def test_the_highest_number_has_a_bucket() -> None:
    assert bucket_of(np.array([-1, 0, 2**63 - 1])).tolist() == [0, 0, 698]
