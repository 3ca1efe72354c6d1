"""Each mutant fails a scenario by its requirement. The reference without mutation passes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drahealth.manager.profile import KEP, MEBIBYTE
from drahealth.manager.releases import NEWEST
from drahealth.proto.health_apis import NODE_HEALTH, NODE_HEALTH_DRAFT
from drahealth.proto.values import Health
from drahealth.suites.judging.ledger import requirements
from drahealth.suites.judging.status_content import Violation
from drahealth.suites.kep import test_api_server_down as away
from drahealth.suites.kep import test_basic as basic
from drahealth.suites.kep import test_claims as claims
from drahealth.suites.kep import test_claims_after_restart as after_restart
from drahealth.suites.kep import test_crash_loop as crash_loop
from drahealth.suites.kep import test_device_plugins as device_plugins
from drahealth.suites.kep import test_events as events
from drahealth.suites.kep import test_feature_gate as feature_gate
from drahealth.suites.kep import test_init_containers as init_containers
from drahealth.suites.kep import test_plugins as plugins
from drahealth.suites.kep import test_prepare as prepare
from drahealth.suites.kep import test_registration as registration
from drahealth.suites.kep import test_reports as reports
from drahealth.suites.kep import test_requests as requests
from drahealth.suites.kep import test_restart as restart
from drahealth.suites.kep import test_story as story
from drahealth.suites.kep import test_streams as streams
from drahealth.suites.kep import test_terminated as terminated
from drahealth.suites.kep import test_timeouts as timeouts
from drahealth.suites.kep import test_validation as validation
from drahealth.suites.unit.suites import (
    claim_mutants,
    mutant_stories,
    mutants,
    plugin_mutants,
    registration_mutants,
    report_mutants,
    stream_mutants,
    target_mutants,
)
from drahealth.suites.unit.suites.mutant_play import NOT_DUE, Case, play
from drahealth.suites.unit.suites.mutant_stories import (
    never_shown,
    one_device_of_two,
    refused_at_first,
    second_pod,
    told_and_not_waited_for,
    two_containers,
    two_containers_and_another,
    unknown_at_the_end,
)

CRASH_LOOP = crash_loop.test_a_pod_in_crash_loop_back_off_shows_the_health_of_its_device
STORY = story.test_a_pod_shows_its_failed_gpu_and_its_replacement_gets_another_gpu
UNHEALTHY = basic.test_an_unhealthy_device_shows_in_the_pod_status_with_its_message
RECOVERED = basic.test_a_recovered_device_shows_healthy_again
FLAPPING = basic.test_after_rapid_changes_the_status_shows_the_latest_health
NAMED = basic.test_a_resource_id_consists_of_driver_pool_and_device
SHARED = claims.test_two_pods_that_share_a_claim_both_show_its_device
REQUESTS = claims.test_two_requests_of_one_claim_have_an_entry_each
SEVERAL = claims.test_several_claims_of_one_container_have_an_entry_each
TEMPLATE = claims.test_a_claim_from_a_template_shows_under_its_name_in_the_pod
RENAMED = claims.test_a_claim_with_another_name_in_the_pod_shows_under_that_name
WHOLE = claims.test_a_container_without_a_request_name_has_an_entry_for_each_request
EXTENDED = claims.test_a_device_that_a_container_holds_as_an_extended_resource_shows_its_health
UNUSED = claims.test_an_unused_claim_shows_in_the_status_of_the_pod_itself
INIT = init_containers.test_an_init_container_shows_the_health_of_its_device
INIT_FAILS = init_containers.test_an_init_container_that_keeps_failing_shows_the_health_of_its_device
SIDECAR = init_containers.test_a_sidecar_shows_the_health_of_its_device
INIT_TERMINATED = init_containers.test_a_terminated_pod_keeps_the_health_in_init_containers_and_sidecars
GATE_OFF = feature_gate.test_with_the_gate_off_the_field_is_not_populated
DISABLED = feature_gate.test_disabling_the_gate_removes_the_field_and_keeps_the_workload_running
ENABLED = feature_gate.test_enabling_the_gate_again_resumes_with_the_current_health
STOPPED = plugins.test_devices_of_a_stopped_plugin_show_unknown_until_it_restarts
NO_HEALTH = plugins.test_a_plugin_without_the_health_service_runs_pods_and_its_devices_show_unknown
UNIMPLEMENTED = plugins.test_each_health_method_that_returns_unimplemented_is_called_once
UNADVERTISED = plugins.test_a_health_api_that_is_served_without_being_advertised_is_watched
UPDATED = plugins.test_in_a_rolling_update_the_newest_instance_is_watched
RESTARTED = restart.test_health_survives_a_kubelet_restart
TERMINATED = terminated.test_the_status_of_a_terminated_pod_does_not_change
LATE = timeouts.test_a_device_not_reported_within_its_timeout_shows_unknown
OWN_TIMEOUT = timeouts.test_each_device_has_its_own_timeout
NO_TIMEOUT = timeouts.test_a_device_without_a_timeout_expires_after_thirty_seconds
DELETED = after_restart.test_pods_deleted_while_the_kubelet_is_down_have_their_claims_unprepared
KEPT = after_restart.test_entries_survive_a_kubelet_restart_while_their_driver_is_absent
WRONG = validation.test_the_api_server_refuses_entries_that_break_a_rule
FAILING = prepare.test_a_claim_that_its_driver_cannot_prepare_is_tried_again
FAILED = prepare.test_a_pod_whose_claim_cannot_be_prepared_can_be_deleted
JOINT = prepare.test_a_claim_of_two_drivers_is_prepared_and_unprepared_by_both
OMITTED = prepare.test_a_claim_that_an_answer_of_its_driver_omits_is_tried_again
CDI = requests.test_a_container_gets_the_cdi_devices_of_its_requests_and_no_others
REJECTED = registration.test_a_plugin_that_the_kubelet_cannot_use_is_rejected_with_a_reason
FAILED_REGISTRATION = registration.test_a_registration_that_failed_is_tried_again
ONE_SOCKET = registration.test_a_plugin_without_an_endpoint_is_called_at_its_registration_socket
UNRESERVED = prepare.test_a_pod_does_not_start_before_its_claim_is_reserved_for_it
TOO_LONG = basic.test_a_message_over_the_limit_is_cut_at_a_character_boundary
ONE_ID = claims.test_devices_with_the_same_cdi_id_each_show_their_own_health
ORDER = claims.test_entries_keep_their_order_between_status_updates
LEFT_OUT = reports.test_a_device_missing_from_reports_keeps_its_health_until_its_timeout
THOUSANDS = reports.test_a_complete_report_of_thousands_of_devices_is_accepted
FLOOD = reports.test_a_change_is_not_lost_among_many_changes_of_another_device
DEREGISTERED = plugins.test_a_deregistered_plugin_is_no_longer_watched
ROLLED_BACK = plugins.test_when_the_newest_instance_stops_the_previous_one_is_watched_again
HEARD_OF = restart.test_the_time_of_the_last_report_survives_a_kubelet_restart
HEARD_AGAIN = timeouts.test_a_device_reported_again_after_its_timeout_shows_its_health_at_once
UNREACHABLE = streams.test_a_plugin_that_registers_before_it_serves_its_endpoint_is_watched_later
UNREACHABLE_RESTARTED = restart.test_health_survives_a_restart_after_which_the_driver_is_unreachable
QUIET_END = plugins.test_a_health_stream_that_ends_is_opened_again
QUIET_UNKNOWN = plugins.test_devices_of_a_stream_that_ended_without_an_error_show_unknown
ABSENT = plugins.test_a_pod_keeps_running_while_its_driver_is_absent
ABSENT_START = plugins.test_a_pod_of_an_absent_driver_starts_after_its_registration
ABSENT_END = plugins.test_a_deleted_pod_of_an_absent_driver_remains_until_its_claim_is_unprepared
NEW_MESSAGE = basic.test_a_new_message_shows_although_the_health_is_the_same
TOLD_UNKNOWN = basic.test_a_device_that_its_driver_reports_as_unknown_shows_unknown
NOTHING_ELSE = basic.test_a_change_of_health_changes_nothing_else_in_the_status_and_no_other_pod
OWN_AFTER_RESTART = restart.test_the_timeout_of_each_device_survives_a_kubelet_restart
KUBELET_PARTS = feature_gate.test_with_the_gate_off_in_the_kubelet_no_part_of_a_status_has_the_field
HUNDRED = requests.test_a_pod_shows_more_than_a_hundred_devices_of_a_driver
NO_MESSAGES = feature_gate.test_without_the_gate_of_messages_a_status_shows_health_but_no_messages
NO_DRA = feature_gate.test_without_dra_the_devices_of_device_plugins_show_their_health
PATCHED = validation.test_patches_merge_entries_by_their_names
NOTIFIED_ONCE = reports.test_pods_are_notified_once_of_a_device_missing_from_reports
API_PARTS = feature_gate.test_with_the_gate_off_in_the_api_server_no_part_of_a_status_has_the_field
DP_GATE = feature_gate.test_the_gate_also_applies_to_device_plugins
DP_FLAPPING = device_plugins.test_after_rapid_changes_in_a_device_plugins_list_the_status_shows_the_latest_health
DP_EVENT = device_plugins.test_a_change_in_a_device_plugins_list_creates_a_pod_event
DP_CRASH_LOOP = crash_loop.test_a_pod_in_crash_loop_back_off_shows_a_device_plugins_health
DP_STORY = story.test_a_pod_shows_its_failed_gpu_of_a_device_plugin_and_its_replacement_gets_another
EVENT = events.test_a_health_change_creates_a_pod_event_and_a_heartbeat_does_not
AWAY = away.test_a_health_change_while_the_api_server_is_down_shows_when_it_is_back
AWAY_DRIVER = away.test_a_driver_that_restarts_while_the_api_server_is_down_is_watched_and_publishes_again
AWAY_KUBELET = away.test_a_report_while_the_api_server_is_down_survives_a_kubelet_restart
API_GATE_OFF = feature_gate.test_with_the_gate_off_in_the_api_server_alone_the_field_is_not_served
KUBELET_GATE_OFF = feature_gate.test_with_the_gate_off_in_the_kubelet_alone_the_field_is_not_populated

DP_UNHEALTHY = device_plugins.test_an_unhealthy_device_of_a_device_plugin_shows_under_its_resource
DP_RECOVERED = device_plugins.test_a_device_that_a_device_plugin_lists_as_healthy_again_shows_healthy
DP_STOPPED = device_plugins.test_devices_of_a_stopped_device_plugin_show_unknown_until_it_restarts
DP_CRASHED = device_plugins.test_devices_of_a_crashed_device_plugin_show_unknown_until_it_restarts
DP_VANISHED = device_plugins.test_a_device_removed_from_the_list_shows_unknown_until_it_is_listed_again
DP_RESTARTED = device_plugins.test_after_a_kubelet_restart_devices_show_unknown_until_their_plugin_registers
DP_BOTH = device_plugins.test_a_container_with_a_claim_and_an_extended_resource_shows_both
DP_ONE_ID = device_plugins.test_devices_with_the_same_id_in_two_resources_keep_their_own_health
DP_TERMINATED = device_plugins.test_a_terminated_pod_keeps_the_health_of_its_device_plugin_device
DP_LOST = device_plugins.test_a_device_that_no_list_contains_shows_unknown_without_a_resync
DP_TWO = device_plugins.test_with_two_plugins_of_a_resource_the_newest_one_counts
DP_WITHOUT = device_plugins.test_a_pod_does_not_run_without_its_devices_after_a_kubelet_restart

CASES = [
    Case("DP-01", DP_UNHEALTHY, device_plugins=plugin_mutants.TellsNobody, resync=NOT_DUE),
    Case("DP-02", DP_RECOVERED, device_plugins=plugin_mutants.StaysSick),
    Case("DP-03", DP_UNHEALTHY, device_plugins=plugin_mutants.ShowsTheWholeResource),
    Case("DP-04", DP_STOPPED, profile=replace(KEP, forgets_list_of_gone_plugin=False)),
    Case("DP-04", DP_CRASHED, profile=replace(KEP, forgets_list_of_gone_plugin=False)),
    Case("DP-05", DP_VANISHED, profile=replace(KEP, unlisted_device=Health.HEALTHY)),
    Case("DP-06", DP_RESTARTED, profile=replace(KEP, unlisted_device=Health.HEALTHY)),
    Case("DP-07", DP_STOPPED, device_plugins=plugin_mutants.ListensOnce),
    Case("DP-08", DP_BOTH, device_plugins=plugin_mutants.OneOrTheOther),
    Case("DP-09", DP_ONE_ID, profile=replace(KEP, owner_by_resource=False)),
    Case("DP-10", DP_LOST, profile=replace(KEP, tells_of_lost_devices=False), resync=NOT_DUE),
    Case("DP-11", DP_TWO, profile=replace(KEP, resource_plugins="all")),
    Case("DP-11", DP_TWO, profile=replace(KEP, resource_plugins="one")),
    Case("DP-12", DP_WITHOUT, device_plugins=plugin_mutants.ForgetsAbsentPlugins),
    Case("TERM-02", DP_TERMINATED, device_plugins=plugin_mutants.DropsAtTheEnd),
    Case("CRASH-01", CRASH_LOOP, mutants.IgnoresWaiting),
    Case("CRASH-01", CRASH_LOOP, mutants.NeverNotifies, resync=NOT_DUE),
    Case("STORY-01", STORY, mutants.HushesUpBadNews),
    Case("STATUS-01", UNHEALTHY, mutants.NeverNotifies, resync=NOT_DUE),
    Case("STATUS-02", UNHEALTHY, report_mutants.ForgetsMessages),
    Case("STATUS-03", RECOVERED, report_mutants.NeverForgives),
    Case("STATUS-04", NAMED, profile=replace(KEP, device_id="first CDI id")),
    Case("STATUS-05", REQUESTS, mutants.ShowsAllUnderEachRequest),
    Case("STATUS-05", SEVERAL, mutants.ShowsAllUnderEachRequest),
    Case("STATUS-07", UNHEALTHY, target=target_mutants.Flickers),
    Case("STATUS-08", FLAPPING, report_mutants.TiresOfFaults),
    Case("STATUS-08", FLAPPING, report_mutants.ReportsTheFirst),
    Case("STATUS-09", SHARED, mutants.TellsOnePod, resync=NOT_DUE),
    Case("STATUS-10", told_and_not_waited_for, report_mutants.ReportsTheFirst),
    Case("STATUS-10", told_and_not_waited_for, mutants.HushesUpBadNews),
    Case("GATE-01", GATE_OFF, mutants.IgnoresTheGate),
    Case("GATE-02", DISABLED, mutants.IgnoresTheGate, profile=NEWEST),
    Case("GATE-03", DISABLED, target=target_mutants.RestartsWorkloads),
    Case("GATE-04", ENABLED, mutants.StaysOff),
    Case("TIMEOUT-01", LATE, report_mutants.AlwaysTheDefault),
    Case("TIMEOUT-02", OWN_TIMEOUT, report_mutants.OneTimeoutForAll),
    Case("TIMEOUT-03", NO_TIMEOUT, report_mutants.WaitsForAMinute),
    Case("TIMEOUT-03", NO_TIMEOUT, report_mutants.WaitsForTenSeconds),
    Case("STREAM-01", STOPPED, mutants.NeverClears),
    Case("STREAM-02", STOPPED, stream_mutants.WatchesOnce),
    Case("STREAM-03", UNHEALTHY, stream_mutants.WatchesTwice),
    Case("OPTOUT-01", NO_HEALTH, mutants.HopesForTheBest),
    Case("OPTOUT-02", UNIMPLEMENTED, profile=replace(KEP, unimplemented_ends_watch=False)),
    Case("OPTOUT-02", NO_HEALTH, profile=replace(KEP, unimplemented_ends_watch=False)),
    Case("STREAM-06", UNADVERTISED, profile=replace(KEP, asks_unadvertised=False)),
    Case("PERSIST-01", RESTARTED, mutants.LosesItsCheckpoint),
    Case("TERM-01", TERMINATED, mutants.FollowsTheTerminated, target=target_mutants.RewritesTheTerminated),
    Case("TERM-02", TERMINATED, profile=replace(KEP, final_status="dropped")),
    Case("TERM-02", INIT_TERMINATED, profile=replace(KEP, final_status="dropped")),
    Case("TERM-02", INIT_TERMINATED, profile=replace(KEP, init_containers="none")),
    Case("INIT-01", INIT, profile=replace(KEP, init_containers="none")),
    Case("INIT-01", INIT, mutants.NeverNotifies, resync=NOT_DUE),
    Case("INIT-01", INIT_FAILS, mutants.IgnoresWaiting),
    Case("INIT-02", SIDECAR, profile=replace(KEP, init_containers="none")),
    Case("INIT-02", SIDECAR, mutants.ForgetsTheRestarted),
    Case("CLAIM-01", TEMPLATE, profile=replace(KEP, claims_shown="same name")),
    Case("CLAIM-01", RENAMED, profile=replace(KEP, claims_shown="listed")),
    Case("CLAIM-02", WHOLE, profile=replace(KEP, whole_claim="one entry")),
    Case("CLAIM-03", EXTENDED, profile=replace(KEP, shows_extended_resources=False)),
    Case("PODLEVEL-01", UNUSED, profile=replace(KEP, pod_level=False)),
    Case("PODLEVEL-01", UNUSED, mutants.ForgetsTheUnused),
    Case("UPDATE-01", UPDATED, stream_mutants.WatchesTheOlder),
    Case("UPDATE-02", UPDATED, stream_mutants.ClearsWithAnyInstance),
    Case("STATUS-11", TOO_LONG, profile=replace(KEP, message_cut="byte", final_status="dropped")),
    Case("STATUS-12", ONE_ID, profile=replace(KEP, device_id="first CDI id", duplicate_id_shows="first")),
    Case("STATUS-13", ORDER, mutants.ShufflesEntries),
    Case("STATUS-14", FLOOD, mutants.DropsNews, resync=NOT_DUE),
    Case("CACHE-01", LEFT_OUT, report_mutants.ForgetsTheAbsent),
    Case("CACHE-02", LEFT_OUT, mutants.TellsOfTheReported, resync=NOT_DUE),
    Case("CACHE-03", THOUSANDS, profile=replace(KEP, largest_report=4 * MEBIBYTE)),
    Case("STREAM-04", DEREGISTERED, stream_mutants.HoldsOn),
    Case("UPDATE-03", UPDATED, stream_mutants.KeepsOldStreams),
    Case("UPDATE-04", ROLLED_BACK, stream_mutants.WatchesEachOnce),
    Case("PERSIST-02", HEARD_OF, profile=replace(KEP, saves_heartbeats=False)),
    Case("EVENT-01", EVENT, profile=replace(KEP, health_events=False)),
    Case("EVENT-02", EVENT, target=target_mutants.TellsAtEachSync),
    Case("EVENT-02", EVENT, target=target_mutants.TellsOfMessages),
    Case("STATUS-15", RECOVERED, target=target_mutants.EndsTheSick),
    Case("AWAY-01", AWAY, target=target_mutants.NeverTriesAgain),
    Case("AWAY-02", AWAY_DRIVER, stream_mutants.WatchesOnce),
    Case("AWAY-03", AWAY_KUBELET, mutants.LosesItsCheckpoint),
    Case("GATE-05", API_GATE_OFF, profile=replace(KEP, api_filters_reads=False, api_keeps_stored=True)),
    Case("GATE-06", KUBELET_GATE_OFF, mutants.IgnoresTheGate),
    Case("TIMEOUT-04", HEARD_AGAIN, profile=replace(KEP, recovery_notifies=False)),
    Case("STREAM-05", QUIET_END, stream_mutants.GivesUpAfterAGoodEnd),
    Case("STREAM-07", UNREACHABLE, stream_mutants.GivesUpOnTheUnreachable),
    Case("STREAM-07", UNREACHABLE_RESTARTED, stream_mutants.GivesUpOnTheUnreachable),
    Case("PERSIST-01", UNREACHABLE_RESTARTED, stream_mutants.ClearsTheUnreachable),
    Case("STREAM-01", QUIET_UNKNOWN, stream_mutants.GivesUpAfterAGoodEnd),
    Case("ABSENT-01", ABSENT, target=target_mutants.EndsTheUnknown),
    Case("ABSENT-02", ABSENT_START, claim_mutants.StartsUnprepared),
    Case("ABSENT-03", ABSENT_END, claim_mutants.AbandonsClaims),
    Case("ABSENT-03", prepare.test_a_pod_whose_claim_cannot_be_unprepared_remains, claim_mutants.AbandonsClaims),
    Case("PREPARE-01", prepare.test_a_shared_claim_is_unprepared_after_its_last_pod, claim_mutants.UnpreparesShared),
    Case("PREPARE-02", FAILING, claim_mutants.StartsUnprepared),
    Case("PREPARE-03", FAILED, claim_mutants.ForgetsFailures),
    Case("PREPARE-04", JOINT, claim_mutants.AsksOneDriver),
    Case("PREPARE-05", DELETED, claim_mutants.LosesItsClaims),
    Case("PERSIST-04", KEPT, claim_mutants.LosesItsClaims),
    Case("REGISTER-01", REJECTED, registration_mutants.AcceptsAnyVersion),
    Case("REGISTER-02", FAILED_REGISTRATION, registration_mutants.KeepsTheUnnotified),
    Case("REGISTER-03", ONE_SOCKET, registration_mutants.NeedsAnEndpoint),
    Case("STATUS-22", UNHEALTHY, target=target_mutants.WritesEmptyLists),
    Case("PREPARE-06", CDI, target=target_mutants.GivesAllDevices),
    Case("PREPARE-07", OMITTED, claim_mutants.StartsUnprepared),
    Case("PREPARE-07", OMITTED, claim_mutants.AbandonsClaims),
    Case("PREPARE-08", UNRESERVED, target=target_mutants.IgnoresReservations),
    Case("API-01", WRONG, target=target_mutants.RefusesNothing),
    Case("STATUS-02", NEW_MESSAGE, mutants.KeepsTheFirstMessage),
    Case("STATUS-16", TOLD_UNKNOWN, mutants.HopesForTheBest),
    Case("STATUS-15", NOTHING_ELSE, target=target_mutants.MakesTheSickUnready),
    Case("STATUS-17", NOTHING_ELSE, claim_mutants.TellsEveryPod, target=target_mutants.WritesAtEachSync),
    Case("PERSIST-03", OWN_AFTER_RESTART, mutants.ForgetsTimeouts),
    Case("STATUS-06", UNHEALTHY, mutants.NamesTheUseTwice),
    Case("STATUS-06", UNHEALTHY, mutants.ListsDevicesTwice, target=target_mutants.RefusesNothing),
    Case("STATUS-07", second_pod, target=target_mutants.ShyAtFirst),
    Case("STATUS-07", unknown_at_the_end, stream_mutants.HangsUp),
    Case("STATUS-10", two_containers, mutants.LosesTheSecond),
    Case("PERSIST-01", RESTARTED, mutants.SavesAtTheEnd),
    Case("CACHE-02", NOTIFIED_ONCE, mutants.NotifiesAgain),
    Case("STATUS-10", never_shown, mutants.ShowsOneContainer),
    Case("STATUS-18", refused_at_first, profile=replace(KEP, duplicate_id_shows="all", device_id="first CDI id")),
    Case("STATUS-19", UNHEALTHY, target=target_mutants.RepeatsEachWrite),
    Case("STATUS-19", UNHEALTHY, target=target_mutants.DatesEachSync),
    Case("STATUS-24", UNHEALTHY, target=target_mutants.CountsTheSick),
    Case("STATUS-20", one_device_of_two, mutants.ShowsTheWholeDriver),
    Case("STATUS-20", two_containers_and_another, mutants.ShowsInEachContainer, target=target_mutants.RefusesNothing),
    Case("STATUS-21", UNHEALTHY, mutants.TellsTemperatures),
    Case("EVENT-01", EVENT, target=target_mutants.HasNoGoodNews),
    Case("ABSENT-01", ABSENT, target=target_mutants.RefusesTheUnknown),
    Case("GATE-05", API_PARTS, target=target_mutants.FiltersContainersOnly),
    Case("GATE-06", KUBELET_PARTS, mutants.IgnoresTheGate),
    Case("GATE-06", KUBELET_PARTS, device_plugins=plugin_mutants.IgnoresTheGate),
    Case("GATE-04", DP_GATE, device_plugins=plugin_mutants.StaysOff),
    Case("STATUS-08", DP_FLAPPING, device_plugins=plugin_mutants.ReadsOneList),
    Case("EVENT-01", DP_EVENT, profile=replace(KEP, health_events=False)),
    Case("CRASH-01", DP_CRASH_LOOP, device_plugins=plugin_mutants.ReadsOneList),
    Case("STORY-01", DP_STORY, device_plugins=plugin_mutants.ReadsOneList),
    Case("STATUS-23", HUNDRED, profile=replace(KEP, largest_report=64 * 1024)),
    Case("EVENT-03", FAILING, target=target_mutants.HidesFailures),
    Case("GATE-07", DISABLED, target=target_mutants.DropsAnotherField),
    Case("GATE-08", NO_DRA, device_plugins=plugin_mutants.NeedsDra),
    Case("GATE-09", NO_MESSAGES, mutants.IgnoresTheGate),
    Case("API-02", PATCHED, target=target_mutants.ReplacesLists),
    # Where the health API carries no messages, nothing may hang on them.
    Case(
        "TERM-01",
        TERMINATED,
        mutants.FollowsTheTerminated,
        target=target_mutants.RewritesTheTerminated,
        health_api=NODE_HEALTH,
    ),
    Case("UPDATE-01", UPDATED, stream_mutants.WatchesTheOlder, health_api=NODE_HEALTH_DRAFT),
    Case("UPDATE-02", UPDATED, stream_mutants.ClearsWithAnyInstance, health_api=NODE_HEALTH_DRAFT),
    Case("TIMEOUT-03", NO_TIMEOUT, report_mutants.WaitsForTenSeconds, health_api=NODE_HEALTH_DRAFT),
    Case("PERSIST-01", RESTARTED, mutants.LosesItsCheckpoint, health_api=NODE_HEALTH_DRAFT),
]


ONLY_WITH_MUTANTS = (unknown_at_the_end,)
"""Stories that wait for the mistake itself."""

STORIES = dict.fromkeys(
    case.story
    for case in CASES
    if case.story.__module__ == mutant_stories.__name__ and case.story not in ONLY_WITH_MUTANTS
)
"""The stories that are no scenarios. Scenarios pass without mutation in suites/kep."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mutant_fails_its_requirement(case: Case) -> None:
    with pytest.raises(Violation) as caught:
        play(case)
    assert caught.value.requirement == case.requirement


@pytest.mark.parametrize("story", [UNHEALTHY, *STORIES], ids=lambda told: told.__name__)
def test_the_reference_without_mutation_passes(story: Callable[..., None]) -> None:
    play(Case("", story))


def test_every_requirement_has_a_mutant() -> None:
    assert {case.requirement for case in CASES} == set(requirements())
