"""What the terminal interface promises, row by row, and the tests that hold each row.

A test is named `file::test`, with the file relative to the folder of all tests. tests/tui/test_rows.py fails if a
test that is named here does not exist.
"""

from __future__ import annotations

EDITOR = "tui/test_editor_rows.py::test_"
WORK = "tui/test_work_rows.py::test_"
ASK = "tui/test_questions_at_a_terminal.py::test_"
GOLDEN = "tui/test_golden_screens.py::test_"
RETRY = "tui/test_retry.py::test_"

ROWS: dict[str, dict[str, tuple[str, ...]]] = {
    "Editor": {
        "several lines: Enter sends, three keys make a line, the editor grows to a third of the rows": (
            EDITOR + "lines_by_three_keys_and_the_editor_grows_to_a_third_of_the_rows",
            "screen/test_editor.py::test_long_lines_wrap_at_words",
        ),
        "history over sessions and processes: per project, bounded, private": (
            EDITOR + "history_goes_over_sessions_and_processes",
            "tui/test_history_file.py::test_prompts_of_another_process_are_noticed",
            "tui/test_history_file.py::test_only_the_newest_entries_are_loaded",
            "tui/test_history_file.py::test_the_file_and_its_folder_are_private",
            "tui/test_history_file.py::test_processes_that_write_at_once_lose_nothing",
        ),
        "undo by word": (
            EDITOR + "undo_kill_ring_word_motions_and_jump",
            "screen/test_editor.py::test_undo_is_grouped_by_word",
        ),
        "kill ring, word motions, jump to a character": (
            EDITOR + "undo_kill_ring_word_motions_and_jump",
            "screen/test_editor.py::test_yank_pop_replaces_by_older_kills",
        ),
        "paste markers: one unit, sent whole, expanded in the external editor": (
            EDITOR + "a_large_paste_is_a_marker_that_is_one_unit_and_sent_whole",
            EDITOR + "the_external_editor_gets_pastes_whole_while_the_agent_runs_on",
            "tui/test_big.py::test_a_megabyte_is_pasted_and_sent_byte_for_byte",
        ),
        "a paste is never keys": (
            EDITOR + "a_paste_is_never_keys",
            EDITOR + "three_lines_in_one_read_are_a_paste_where_the_terminal_has_no_bracketed_paste",
            "screen/test_keys.py::test_a_paste_is_never_keys",
        ),
        "images by Ctrl+V and by a dropped path": (
            EDITOR + "ctrl_v_pastes_an_image_or_the_text_of_the_clipboard",
            EDITOR + "a_dropped_path_to_an_image_is_sent_as_an_image",
            "tui/test_clipboard.py::test_an_image_by_xclip",
            "tui/test_clipboard.py::test_an_image_by_pngpaste_or_osascript",
            "tui/test_clipboard.py::test_an_image_by_powershell_in_wsl",
        ),
        "external editor": (
            EDITOR + "the_external_editor_gets_pastes_whole_while_the_agent_runs_on",
            "tui/test_external_editor.py::test_the_order_of_editors",
        ),
        "@ files without any tool installed, images attached": (
            EDITOR + "at_files_and_tab_paths_and_commands_with_arguments",
            "tui/test_files.py::test_the_list_works_without_ripgrep",
            "tui/test_files.py::test_first_rows_of_a_hundred_thousand_files",
            "tui/test_files.py::test_mentions_are_quoted_and_folders_left_open",
        ),
        "Tab completes paths": (
            EDITOR + "at_files_and_tab_paths_and_commands_with_arguments",
            "tui/test_files.py::test_tab_completes_paths_in_any_text",
        ),
        "/ commands: ours, templates, skills, extensions, with hints and values": (
            EDITOR + "at_files_and_tab_paths_and_commands_with_arguments",
            EDITOR + "the_list_of_commands_has_templates_skills_and_extensions",
            "tui/test_files.py::test_commands_are_completed_with_hints_and_values",
        ),
        "! and !!: live output, Escape stops, !! is not told to the model, no full-screen programs": (
            EDITOR + "a_shell_command_shows_its_output_live_and_escape_stops_it",
            EDITOR + "output_of_commands_that_run_at_once_stays_apart",
            EDITOR + "a_full_screen_program_gets_a_plain_message",
            "screen/test_input_mode.py::test_programs_that_need_the_whole_terminal",
        ),
        "type-ahead from the first moment": (
            "tui/test_interface.py::test_keys_pressed_before_the_interface_is_drawn_are_in_the_editor",
            "tui/test_terminal.py::test_keys_typed_before_the_program_has_started_are_events",
        ),
        "wide characters, emoji, the real cursor at the caret": (
            EDITOR + "the_cursor_is_at_the_caret_in_wide_text_and_a_cluster_is_one_step",
            "screen/test_editor_laws.py::test_the_cursor_is_always_at_the_edge_of_a_grapheme",
        ),
    },
    "Transcript": {
        "Markdown while it streams never flickers between two forms": (
            WORK + "markdown_that_streams_never_shows_a_marker_that_disappears_again",
            "screen/test_stream.py::test_what_is_shown_of_an_unfinished_text_only_grows",
            "screen/test_stream.py::test_links_have_their_address_in_the_text_or_in_the_span",
            GOLDEN + "the_screens_are_as_in_the_golden_files",
        ),
        "tables wider than the screen": (
            "screen/test_stream.py::test_tables_wider_than_the_screen_wrap_then_shrink_then_become_blocks",
        ),
        "thinking is dim italic, Ctrl+T and a setting collapse it": (
            WORK + "ctrl_t_collapses_thinking_and_a_setting_hides_it",
        ),
        "tool calls: title while arguments arrive, live output, time": (
            WORK + "a_tool_card_is_live_and_expands_in_place",
            "screen/test_cards.py::test_a_title_shows_arguments_as_they_arrive",
            "screen/test_cards.py::test_the_duration_is_shown_above_a_tenth_of_a_second",
        ),
        "diffs, also in the question before the edit": (
            WORK + "an_edit_shows_its_diff_with_numbers_signs_and_marked_words",
            ASK + "the_change_of_an_edit_is_in_the_question",
        ),
        "collapse and expand in place": (
            WORK + "a_tool_card_is_live_and_expands_in_place",
            "screen/test_cards.py::test_previews_have_the_lines_of_the_table",
            "screen/test_transcript.py::test_ctrl_o_expands_what_is_on_the_screen_and_leaves_what_is_above",
        ),
        "custom entries, compaction and branch summaries, model changes are cards": (
            WORK + "compaction_shows_its_progress_its_summary_and_escape_stops_it",
            WORK + "a_model_change_and_a_thinking_level_are_lines",
            WORK + "renderers_of_an_extension_draw_its_tools_and_messages",
            "screen/test_transcript.py::test_entries_of_a_session_file_have_their_cards",
            "tui/test_tree.py::test_the_branch_that_is_left_is_summarised",
        ),
        "hostile output never controls the terminal": (
            "tui/test_hostile_text.py::test_no_text_of_model_tools_and_files_is_a_control_at_the_terminal",
            "tui/test_hostile_text.py::test_no_text_of_an_extension_is_a_control_at_the_terminal",
            "screen/test_safe_text.py::test_colours_of_command_output_are_kept",
        ),
    },
    "While it works": {
        "Enter steers, Alt+Enter follows up": (
            "tui/test_interface.py::test_enter_steers_and_alt_enter_follows_up",
            "screen/test_bindings.py::test_windows_and_wsl_have_keys_of_their_own",
        ),
        "Alt+Up returns queued messages": ("tui/test_interface.py::test_alt_up_returns_queued_messages_to_the_editor",),
        "Escape stops the innermost, returns queued texts, keeps what was said": (
            EDITOR + "escape_closes_the_completion_before_it_stops_the_answer",
            ASK + "escape_denies_the_call_and_the_run_goes_on",
            WORK + "escape_stops_the_shell_command_before_the_answer",
            RETRY + "the_wait_for_a_retry_counts_down_each_second_and_escape_ends_it",
            RETRY + "escape_in_the_wait_for_a_retry_returns_queued_texts_to_the_editor",
            WORK + "compaction_shows_its_progress_its_summary_and_escape_stops_it",
            WORK + "escape_returns_queued_texts_to_the_editor_and_keeps_what_was_said",
        ),
        "working line": (
            WORK + "the_working_line_has_time_tokens_limits_and_how_to_stop",
            "screen/test_working.py::test_a_model_that_is_silent_for_twenty_seconds_is_mentioned",
            "screen/test_working.py::test_the_spinner_changes_four_times_a_second_and_once_over_ssh",
        ),
        "retry countdown: Escape ends it, Enter tries now": (
            RETRY + "the_wait_for_a_retry_counts_down_each_second_and_escape_ends_it",
            RETRY + "enter_tries_again_at_once",
            RETRY + "a_text_that_is_sent_while_a_retry_waits_is_queued",
        ),
        "budgets": (
            WORK + "the_working_line_has_time_tokens_limits_and_how_to_stop",
            "screen/test_working.py::test_budgets_are_in_the_working_line",
        ),
        "tools side by side": (
            WORK + "tools_side_by_side_stand_in_the_order_of_their_calls",
            "screen/test_transcript.py::test_tools_side_by_side_are_in_the_order_of_their_calls",
        ),
    },
    "Extensions": {
        "select, confirm, input, editor: in order, with countdown, Escape cancels": (
            WORK + "questions_of_an_extension_wait_in_order_count_down_and_are_cancelled_by_escape",
            ASK + "an_extension_shows_widgets_and_asks",
        ),
        "notify, status, widgets above and below": (
            ASK + "an_extension_shows_widgets_and_asks",
            "screen/test_extension_ui.py::test_statuses_are_one_line_sorted_by_key",
            "screen/test_extension_ui.py::test_a_widget_shows_ten_lines_and_says_how_many_more",
        ),
        "title, editor text, working line, thinking label, header, footer, expanded tools, mode": (
            WORK + "what_an_extension_sets_is_on_the_screen",
            "tui/test_extension_ui.py::test_everything_that_an_extension_shows_arrives",
        ),
        "shortcuts and completions": (
            ASK + "an_extension_shows_widgets_and_asks",
            "tui/test_extension_ui.py::test_functions_for_the_terminal_are_called_and_a_slow_one_is_not_waited_for",
        ),
        "renderers of tools and messages have a time limit": (
            WORK + "renderers_of_an_extension_draw_its_tools_and_messages",
            "tui/test_extension_ui.py::test_an_extension_that_dies_or_hangs_while_it_renders_costs_its_own_lines_only",
        ),
        "floods and crashes": (
            "tui/test_extension_ui.py::test_a_flood_shows_the_newest_state_and_leaves_the_session_usable",
            "tui/test_ends.py::test_an_extension_that_crashes_leaves_the_interface_alone",
        ),
    },
    "Questions of permission": {
        "the panel shows tool, command or path, folder, sandbox, rule and diff; long ones scroll": (
            WORK + "what_was_allowed_for_the_session_is_listed_and_taken_back",
            ASK + "the_change_of_an_edit_is_in_the_question",
            "screen/test_panels.py::test_a_long_diff_scrolls_inside_the_panel",
        ),
        "keys typed for something else are never an answer": (
            ASK + "text_that_is_typed_while_a_question_appears_is_in_the_editor_whole",
            ASK + "a_paste_is_never_an_answer",
            "tui/test_question_keys.py::test_no_key_that_is_meant_for_the_editor_answers_a_question",
            "screen/test_question_focus.py::test_enter_held_down_never_answers",
        ),
        "an empty, quiet editor gives the focus; the first row chosen is Deny": (
            ASK + "a_quiet_editor_gives_the_focus_and_a_digit_allows_the_call",
        ),
        "Deny, and say why": (ASK + "deny_and_say_why",),
        "Escape denies the call, twice stops the run": (
            ASK + "escape_denies_the_call_and_the_run_goes_on",
            ASK + "escape_twice_stops_the_run",
        ),
        "the deadline counts down, Space stops the clock": (
            ASK + "the_deadline_counts_down_and_space_stops_it",
            "tui/test_questions.py::test_the_rules_can_forbid_to_stop_the_clock",
        ),
        "several at once, in the order of the calls": (
            ASK + "questions_of_parallel_calls_come_one_after_the_other",
            "tui/test_question_keys.py::test_three_questions_at_once_are_answered_one_by_one_and_escape_twice_stops_the_run",
        ),
        "Shift+Tab stays the thinking level": (WORK + "shift_tab_is_the_thinking_level_while_a_question_waits",),
        "/permissions lists, takes back, and only makes stricter": (
            WORK + "what_was_allowed_for_the_session_is_listed_and_taken_back",
            "runtime/test_permission_control.py::test_rules_can_be_added_and_the_strictest_decides",
            "runtime/test_permission_control.py::test_a_session_without_rules_can_get_them_and_lose_them_again",
        ),
    },
}
