// Every documented type of audit entry with its frequency, and a few undocumented ones.

/**
 * Each with its weight out of about 2,000, if it is not 1. Audit fetches are no traffic: reading
 * creates them.
 */
const documented: Readonly<Record<string, string>> = {
  api: `
    audit_log_fetch=0 create_query=20 client_matter_management history_fetch=25 token_mgmt_rotate
    vault_list_projects=12 vault_get_metadata vault_upload_files=10 vault_delete_file vault_delete_project
  `,
  auth: `
    login=90 logout=50 failed=18
  `,
  admin: `
    client_view_workspace_history=12 fetch_workspace_history=10 client_view_workspace_history_item=12
    fetch_workspace_history_item delete_workspace_history_item delete_workspace_history_items
    export_workspace_history export_query_usage client_export_workspace_users add_users remove_users
    grant_perms revoke_perms create_role update_role delete_role update_user_role create_export_template
    edit_export_template delete_export_template download_export_template bulk_update_role_configs
    get_role_users fetch_client_matters add_client_matters delete_client_matters enable_integration
    disable_integration update_integration update_client_matters manage_client_matters fetch_stats
    fetch_workspace_users=15 update_sharing_settings upsert_workspace_notice upsert_workspace_guidance
    upsert_workspace_logo delete_workspace_logo update_workspace_brand_name edit_user_profile
    update_playbook_permissions publish_playbook unpublish_playbook approve_collab_request
    decline_collab_request cancel_collab_request approve_space_request decline_space_request
    create_external_connection_invite update_external_connection_invite approve_external_connection_request
    reject_external_connection_request add_users_to_external_connection remove_user_from_external_connection
    update_user_role_in_external_connection remove_resource_from_external_connection
    delete_external_connection
  `,
  user: `
    create_query=300 client_view_history=140 fetch_history=160 client_view_history_item=120
    fetch_history_item=110 update_history_item delete_history_item cancel_history_item
    fetch_client_matters=20 add_client_matters delete_client_matters update_client_matters
    fetch_vault_top_level_folders fetch_vault_example_project set_vault_example_project
    unset_vault_example_project fetch_vault_folder_path fetch_project_metadata fetch_vault_folder=90
    fetch_vault_file=60 fetch_vault_file_review_rows fetch_vault_files=70 fetch_vault_folders_by_path
    create_vault_folder create_vault_review_query=25 upload_vault_files=45 update_vault_file_metadata
    update_vault_folder_metadata delete_vault_files delete_vault_folder fetch_query_questions
    semantic_search_with_vault_folder retry_vault_files rerun_vault_review_queries
    mark_review_event_completed clear_vault_query_errors fetch_vault_review_query_usage
    fetch_vault_folder_history_stats fetch_vault_projects_history_stats
    create_vault_folder_sharing_permissions update_vault_folder_sharing_permissions
    delete_vault_folder_sharing_permissions create_event_sharing_permissions
    update_event_sharing_permissions create_library_item update_library_item delete_library_item
    connect_integration disconnect_integration fetch_connected_integrations=40 fetch_integration_token
    export_library accept_workspace_notice enable_workspace_feature disable_workspace_feature
    view_dms_one_way_sync create_dms_one_way_sync trigger_dms_one_way_sync update_dms_one_way_sync
    delete_dms_one_way_sync dms_folder_upload bulk_patch_resource_access revoke_resource_access
    list_resource_access dms_file_import dms_file_export add_user_profile edit_user_profile
    fetch_vault_history_item review_playbook_document create_playbook create_user_group
    add_user_group_members remove_user_group_members get_user_group_members get_user_group list_user_groups
    delete_user_group delete_playbook update_playbook convert_playbook_document fetch_playbook_permissions
    duplicate_playbook export_playbook_review export_playbook list_playbooks=15 fetch_playbook_history
    fetch_playbook_version word_add_in_ask=60 word_add_in_docx_drafting word_add_in_proofread_document
    word_redact word_fill_template word_suggest=30 playbook_suggest word_contextual_prompts
    word_add_in_insert word_add_in_apply_edit word_add_in_apply_suggestions word_add_in_dismiss_suggestions
    word_add_in_restore_suggestions word_add_in_update_suggestions word_add_in_create_word_document
    word_add_in_get_word_document word_add_in_get_latest_export_event word_add_in_get_word_event_suggestions
    word_add_in_get_history=40 word_add_in_format_ooxml word_add_in_extract_definitions
    word_add_in_get_contextual_prompts word_add_in_metadata_redaction word_add_in_translation
    word_add_in_detect_language mail_add_in_ask=25 create_mail_email get_mail_email
    spaces_add_members_to_space spaces_member_approval_changed spaces_remove_member_from_space
    spaces_leave_space spaces_create_space spaces_update_space spaces_delete_space spaces_get_home_page=35
    spaces_get_details_page list_collab_requests get_collab_request spaces_add_resources_to_space
    spaces_resource_approval_changed spaces_resource_unshared spaces_get_publishable_resources
    spaces_get_members spaces_get_invitable_members get_external_connections_requests_page
    get_external_connections_details_page
  `,
  system: `
    trigger_dms_one_way_sync=20
  `,
}

const weighted: readonly (readonly [type: string, weight: number])[] = [
  ...Object.entries(documented).flatMap(([group, actions]) =>
    actions
      .trim()
      .split(/\s+/)
      .map((action) => action.split('='))
      .map(([action = '', weight = '1']) => [`${group}:${action}`, Number(weight)] as const),
  ),
  ['user:preview_tidal_view', 1],
  ['policy:evaluated', 1],
  ['system:rotate_internal_index', 1],
]

/** @internal for tests */
export const documentedTypes: readonly string[] = weighted.slice(0, -3).map(([type]) => type)

/** Each type, repeated by its weight. */
const lots = weighted.flatMap(([type, weight]) => Array<string>(weight).fill(type))

/** The type for `chance` in [0, 1). */
export const drawType = (chance: number): string => lots[Math.floor(chance * lots.length)] ?? ''
