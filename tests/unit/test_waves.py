"""Grid-wave arithmetic against a schedule played out step by step."""

from hypothesis import given
from hypothesis import strategies as st

from kgen.planning.waves import ceil_div, cluster_slots, grid_waves


@given(st.integers(0, 5000), st.integers(1, 200))
def test_waves_match_a_played_schedule(clusters: int, slots: int) -> None:
    left, waves = clusters, 0
    while left > 0:
        left -= slots
        waves += 1
    found = grid_waves(clusters, slots)
    assert found.waves == waves == ceil_div(clusters, slots)
    assert found.efficiency == (clusters / (waves * slots) if waves else 0)


def test_clusters_stay_inside_their_group_of_units() -> None:
    assert [int(cluster_slots(size, 132, 8, {})) for size in (1, 2, 4, 8, 16)] == [132, 66, 32, 16, 8]
    assert int(cluster_slots(4, 78, 8, {})) == 16
    assert int(cluster_slots(64, 16, 1, {})) == 1


def test_what_the_driver_says_of_clusters_goes_before_the_groups() -> None:
    known = {4: 30, 8: 15, 16: 7}
    found = [int(cluster_slots(size, 132, 8, known)) for size in (1, 2, 3, 4, 6, 8, 16, 32)]
    assert found == [132, 66, 30, 30, 15, 15, 7, 1]
