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
MODELS = "tui/test_model_picker.py::test_"
SESSIONS = "tui/test_session_picker.py::test_"
TREE = "tui/test_tree.py::test_"
SETTINGS = "tui/test_settings_command.py::test_"
LOGIN = "tui/test_login_command.py::test_"
PI_FILES = "tui/test_pi_files.py::test_"
COPY = "tui/test_copy_and_export.py::test_"
VIEWER = "tui/test_transcript_viewer.py::test_"

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
            "tui/test_question_keys.py::test_four_questions_at_once_are_answered_one_by_one_and_escape_twice_stops_the_run",
        ),
        "Shift+Tab stays the thinking level": (WORK + "shift_tab_is_the_thinking_level_while_a_question_waits",),
        "/permissions lists, takes back, and only makes stricter": (
            WORK + "what_was_allowed_for_the_session_is_listed_and_taken_back",
            "runtime/test_permission_control.py::test_rules_can_be_added_and_the_strictest_decides",
            "runtime/test_permission_control.py::test_a_session_without_rules_can_get_them_and_lose_them_again",
        ),
    },
    "Models, sessions, tree": {
        "model picker": (
            MODELS + "the_model_picker_shows_price_and_window_and_filters",
            MODELS + "ctrl_s_in_the_model_picker_makes_the_model_the_default",
            MODELS + "model_picks_at_once_when_only_one_fits",
            MODELS + "scoped_models_are_first_in_the_model_picker",
            MODELS + "models_json_is_read_again_when_the_model_picker_opens",
        ),
        "cycle models and levels": (
            MODELS + "keys_cycle_through_models_and_levels_for_this_session_only",
            GOLDEN + "without_colour_every_state_is_told_by_a_word_or_a_sign",
        ),
        "scoped models": (
            MODELS + "scoped_models_are_cycled_through_and_ctrl_s_saves_them",
            "tui/test_greeting.py::test_the_models_of_the_scope_are_named_with_the_key_that_cycles",
            "screen/test_scoped_models.py::test_ctrl_p_switches_the_models_of_the_provider",
        ),
        "resume picker": (
            SESSIONS + "resume_opens_the_chosen_session",
            SESSIONS + "the_picker_searches_in_messages_also_while_an_answer_streams",
            SESSIONS + "the_argument_of_resume_is_completed_with_sessions",
            SESSIONS + "escape_in_the_picker_at_the_start_ends_the_program",
            SESSIONS + "ctrl_r_renames_a_session_without_opening_it",
            SESSIONS + "ctrl_d_deletes_a_session_after_a_question",
            "screen/test_session_picker.py::test_ctrl_n_shows_only_named_sessions_and_ctrl_p_paths",
        ),
        "what a resumed session shows": ("tui/test_big.py::test_a_session_of_20000_entries_is_resumed",),
        "tree": (
            TREE + "tree_continues_before_a_prompt_which_is_then_in_the_editor",
            TREE + "double_escape_opens_the_tree_and_escape_leaves_it",
            TREE + "a_label_is_set_in_the_tree_and_shown_again",
            TREE + "the_branch_that_is_left_is_summarised",
            TREE + "a_session_of_20_000_entries_in_tree_and_viewer",
            "screen/test_tree_modal.py::test_a_filter_shows_its_entries_and_the_same_key_goes_back",
            "screen/test_tree_modal.py::test_a_segment_is_folded_and_unfolded",
            "screen/test_tree_modal.py::test_typing_searches_texts_labels_and_kinds",
        ),
        "fork, clone, new, name, import": (
            TREE + "fork_says_what_it_is_now_and_returns_the_prompt",
            SESSIONS + "name_clone_and_new_act_on_the_session",
            SESSIONS + "import_copies_a_session_file_and_opens_it",
        ),
        "another session or branch on the same screen": (
            TREE + "fork_says_what_it_is_now_and_returns_the_prompt",
            SESSIONS + "resume_opens_the_chosen_session",
        ),
        "a session that another process has": (
            SESSIONS + "a_session_of_another_process_can_be_looked_at",
            SESSIONS + "a_session_of_another_process_can_be_forked",
            SESSIONS + "a_session_of_another_process_can_be_waited_for",
        ),
    },
    "Settings, keys, looks": {
        "/settings from the declarations": (
            SETTINGS + "settings_lists_every_setting_and_enter_changes_the_chosen_one",
            SETTINGS + "a_project_cannot_be_written_untrusted",
            SETTINGS + "a_trusted_project_is_written_and_its_value_wins",
            "screen/test_settings_list.py::"
            "test_every_declared_setting_has_a_sentence_and_its_default_is_one_of_its_values",
        ),
        "/login and /logout": (
            LOGIN + "login_stores_a_key_that_is_never_shown",
            LOGIN + "a_key_that_the_provider_rejects_is_not_stored",
            LOGIN + "login_without_a_name_lists_the_providers_and_logout_removes_an_entry",
            LOGIN + "a_provider_with_an_oauth_client_is_logged_in_to_with_the_browser",
        ),
        "first run without a key": (
            LOGIN + "the_first_prompt_without_a_key_opens_a_choice_and_the_demo_answers_it",
            LOGIN + "the_first_prompt_without_a_key_offers_a_local_server",
            LOGIN + "a_key_that_is_pasted_at_the_first_prompt_is_used_for_it",
        ),
        "themes": (
            PI_FILES + "a_theme_of_pi_is_taken_without_a_warning",
            PI_FILES + "use_theme_and_theme_choose_a_theme_for_one_run",
            PI_FILES + "no_themes_loads_only_those_of_the_command_line",
            PI_FILES + "a_theme_file_is_used_again_when_it_changes",
            PI_FILES + "a_theme_for_light_and_dark_follows_the_terminal",
            "store/test_trust.py::test_a_project_with_only_themes_can_be_trusted_and_its_themes_may_change",
            "screen/test_styles.py::test_the_sixteen_colours_stay_those_of_the_terminal",
        ),
        "colour depth": (
            GOLDEN + "a_depth_of_colour_uses_only_its_own_sequences",
            GOLDEN + "without_colour_every_state_is_told_by_a_word_or_a_sign",
            "screen/test_styles.py::test_colours_of_the_terminal_follow_the_environment",
        ),
        "keybindings file": (
            PI_FILES + "the_keybindings_of_pi_are_taken_without_a_warning",
            PI_FILES + "reload_reads_keys_and_themes_again",
            "screen/test_bindings.py::test_every_id_of_pi_is_in_the_table_with_its_keys",
            "screen/test_bindings.py::test_unknown_ids_and_keys_are_warnings_with_their_line",
            "screen/test_bindings.py::test_ids_of_old_versions_are_understood",
        ),
        "/hotkeys": (
            "tui/test_hotkeys.py::test_hotkeys_are_searchable_also_while_an_answer_streams",
            "tui/test_hotkeys.py::"
            "test_a_question_mark_in_an_empty_editor_shows_the_keys_and_the_next_character_continues",
            "screen/test_hotkeys.py::test_keys_that_the_terminal_cannot_send_say_so",
        ),
        "diagnosis of the terminal": (
            "tui/test_terminal_command.py::test_terminal_shows_what_was_asked_and_answered",
            "screen/test_terminal_report.py::test_options_of_tmux_that_are_off_have_the_line_to_add",
        ),
    },
    "Around it": {
        "footer": (
            "screen/test_footer.py::test_both_lines_with_all_their_parts",
            "screen/test_footer.py::test_narrow_screens_drop_parts_in_a_fixed_order",
            "tui/test_greeting.py::test_the_start_names_the_scope_and_the_footer_says_offline_and_read_only",
        ),
        "branch without a process": (
            "tui/test_branch.py::test_the_branch_is_read_from_head_and_again_when_it_has_changed",
        ),
        "notifications": (
            "tui/test_attention_at_a_terminal.py::test_a_question_that_waits_without_the_focus_is_announced",
            "tui/test_notices.py::test_the_setting_of_notifications_can_change_while_the_program_runs",
            "tui/test_notifications.py::test_a_notification_is_what_the_terminal_knows",
            "screen/test_attention.py::test_a_long_run_that_settles_without_the_focus_is_announced",
        ),
        "terminal title, progress": (
            "tui/test_attention_at_a_terminal.py::test_the_title_tells_the_name_and_the_work_and_is_restored",
            "tui/test_notices.py::test_the_window_shows_a_run_if_the_setting_is_on_also_if_it_changes_meanwhile",
        ),
        "copy": (
            COPY + "copy_and_ctrl_x_copy_the_last_answer_as_markdown_and_say_how",
            COPY + "copy_code_copies_a_code_block",
            COPY + "copy_takes_the_program_of_the_platform",
        ),
        "export, share": (
            COPY + "export_writes_html_or_the_branch_as_jsonl",
            "tui/test_share_and_bug.py::test_share_uploads_by_gh_after_a_question_that_names_what_goes_out",
        ),
        "exit": (
            COPY + "the_exit_summary_tells_time_turns_tokens_cost_files_and_how_to_continue",
            COPY + "an_empty_session_and_quiet_exit_show_no_summary",
        ),
        "suspend": (
            "tui/test_job_control.py::test_a_stop_leaves_a_sane_prompt_and_fg_draws_the_interface_again",
            "tui/test_job_control.py::test_a_stop_while_an_answer_arrives_and_the_answer_goes_on",
        ),
        "transcript viewer": (
            VIEWER + "the_viewer_shows_the_whole_branch_and_the_screen_is_as_it_was",
            VIEWER + "the_viewer_follows_an_answer_and_escape_leaves_it_running",
            VIEWER + "an_entry_is_opened_in_the_editor_and_copied",
            "screen/test_viewer.py::test_search_goes_to_the_next_and_the_previous_match",
            "screen/test_viewer.py::test_brackets_go_to_the_previous_and_next_prompt",
        ),
        "/session": (WORK + "session_shows_file_counts_tokens_and_cost",),
    },
}
