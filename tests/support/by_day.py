"""How many cases of long matrices run by day: `.ci/run` has them all. `tests/support/matrix.py` is for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

CASES = {
    "cli/test_bundle.py::test_what_a_failed_run_made_does_not_block_the_next": 1,
    "cli/test_export.py::test_an_index_that_fails": 1,
    "facts/test_wheels.py::test_fields_are_well_formed": 2,
    "faults/test_bad_index.py::test_told_and_survived": 2,
    "faults/test_interrupted.py::test_with_several_solves_at_once": 0,
    "faults/test_storage.py::test_a_damaged_lock_is_refused": 2,
    "forged/test_forged.py::test_judged": 36,
    "git/test_git_action_gate.py::test_a_replaced_file_fails_where_it_was_asked_to": 0,
    "git/test_git_gitlab.py::test_gitlab_fails_with_a_risk": 0,
    "hostile/test_forged_bundles.py::test_what_an_old_bundle_holds": 0,
    "hostile/test_lock_bounds.py::test_a_build_requirement": 1,
    "hostile/test_lock_bounds.py::test_a_build_requirement_from_elsewhere": 1,
    "hostile/test_lock_bounds.py::test_a_url_without_end": 1,
    "hostile/test_odd_foreign_files.py::test_an_odd_value_anywhere": 3,
    "hostile/test_peers_without_end.py::test_lock_gives_it_up": 1,
    "hostile/test_planted_commit.py::test_a_hidden_lock_that_is_as_sound_as_the_visible_one": 1,
    "hostile/test_planted_commit.py::test_a_journal_that_installs_a_hook": 1,
    "hostile/test_policy_evasion.py::test_a_variable_that_puts_another_index_in_pypis_place": 2,
    "hostile/test_secrets_leave.py::test_where_a_lock_is_made_or_refused": 6,
    "hostile/test_terminal_escapes.py::test_on_a_terminal": 1,
    "hostile/test_wheel_writes_outside.py::test_a_record_that_comes_with_a_wheel": 1,
    "install/test_conda_patience.py::test_a_peer_without_end": 1,
    "install/test_direct_url.py::test_it_is_the_url_in_the_lock": 0,
    "link/test_against_the_loader.py::test_link_says_what_the_loader_says": 3,
    "lock/test_judge_of_many.py::test_the_second_target_reads_no_file_name_and_no_requirement_again": 0,
    "net/test_fetch.py::test_a_body_that_breaks_off_is_read_again": 1,
    "net/test_patience.py::test_a_server_is_asked_again_when_it_says": 1,
    "recipes/test_hostile_names.py::test_what_is_hostile_in_a_name_is_refused": 1,
    "resolve/torch_index/test_recorded_index.py::test_uv_resolves_the_newest_torch_of_each_variant": 1,
    "smoke/test_check_reasons.py::test_what_compiles_runs_beside_the_others_and_figures_alone": 0,
}
"""The first so many cases of a test, by its file below tests/ and its name."""


def leave_to_ci(items: Iterable[pytest.Item]) -> None:
    """Mark the cases beyond these numbers as slow."""
    seen: Counter[str] = Counter()
    for item in items:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        if name in CASES and item.get_closest_marker("slow") is None:
            seen[name] += 1
            if seen[name] > CASES[name]:
                item.add_marker(pytest.mark.slow)
