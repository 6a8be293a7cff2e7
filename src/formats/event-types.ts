// Name and severity (0 to 10) of each type of audit entry: one table for all formats with a
// severity. docs/formats.md shows all of it.
import type { SourceName } from '../contracts/source.ts'

/** What a format derives from the type of an entry. */
export interface EventType {
  /** the entry's type, or the source if it has none */
  readonly classId: string
  readonly name: string
  readonly severity: number
  /** before and after the first colon of the type; '' if there is none */
  readonly category: string
  readonly action: string
  /** set if the type alone implies it; otherwise '' */
  readonly outcome: string
}

/** Severities of documented types, by group. Reading is 2, changing permissions of others is 7. */
const severities: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  auth: { 1: 'logout', 2: 'login', 5: 'failed' },
  api: {
    2: `audit_log_fetch create_query client_matter_management history_fetch vault_list_projects
      vault_get_metadata vault_upload_files`,
    5: 'vault_delete_file vault_delete_project',
    7: 'token_mgmt_rotate',
  },
  admin: {
    2: 'get_role_users fetch_client_matters fetch_stats fetch_workspace_users',
    3: 'edit_user_profile publish_playbook unpublish_playbook',
    4: `approve_collab_request decline_collab_request cancel_collab_request approve_space_request
      decline_space_request`,
    5: `client_view_workspace_history fetch_workspace_history client_view_workspace_history_item
      fetch_workspace_history_item add_users remove_users download_export_template`,
    6: `create_role update_role delete_role bulk_update_role_configs create_export_template
      edit_export_template delete_export_template add_client_matters delete_client_matters
      update_client_matters manage_client_matters enable_integration disable_integration
      update_integration update_sharing_settings upsert_workspace_notice upsert_workspace_guidance
      upsert_workspace_logo delete_workspace_logo update_workspace_brand_name
      update_playbook_permissions`,
    7: `delete_workspace_history_item delete_workspace_history_items export_workspace_history
      export_query_usage client_export_workspace_users grant_perms revoke_perms update_user_role
      create_external_connection_invite update_external_connection_invite
      approve_external_connection_request reject_external_connection_request
      add_users_to_external_connection remove_user_from_external_connection
      update_user_role_in_external_connection remove_resource_from_external_connection
      delete_external_connection`,
  },
  vault: {
    1: 'project_listed',
    2: 'project_updated',
    3: 'project_created',
    5: 'project_deleted knowledge_base_set knowledge_base_cleared user_share_removed workspace_share_removed',
    6: 'user_share_added user_share_changed',
    7: 'workspace_share_added workspace_share_changed',
  },
  user: {
    1: `create_query cancel_history_item word_add_in_ask word_add_in_docx_drafting
      word_add_in_proofread_document word_redact word_fill_template word_suggest playbook_suggest
      word_contextual_prompts word_add_in_insert word_add_in_apply_edit word_add_in_apply_suggestions
      word_add_in_dismiss_suggestions word_add_in_restore_suggestions word_add_in_update_suggestions
      word_add_in_create_word_document word_add_in_get_word_document word_add_in_get_latest_export_event
      word_add_in_get_word_event_suggestions word_add_in_get_history word_add_in_format_ooxml
      word_add_in_extract_definitions word_add_in_get_contextual_prompts word_add_in_metadata_redaction
      word_add_in_translation word_add_in_detect_language mail_add_in_ask create_mail_email
      get_mail_email`,
    2: `client_view_history fetch_history client_view_history_item fetch_history_item
      fetch_client_matters fetch_vault_top_level_folders fetch_vault_example_project
      fetch_vault_folder_path fetch_project_metadata fetch_vault_folder fetch_vault_file
      fetch_vault_file_review_rows fetch_vault_files fetch_vault_folders_by_path fetch_query_questions
      semantic_search_with_vault_folder fetch_vault_review_query_usage fetch_vault_folder_history_stats
      fetch_vault_projects_history_stats fetch_vault_history_item create_library_item
      update_library_item delete_library_item fetch_connected_integrations accept_workspace_notice
      view_dms_one_way_sync list_resource_access get_user_group_members get_user_group list_user_groups
      review_playbook_document create_playbook delete_playbook update_playbook
      convert_playbook_document fetch_playbook_permissions duplicate_playbook list_playbooks
      fetch_playbook_history fetch_playbook_version spaces_get_home_page spaces_get_details_page
      list_collab_requests get_collab_request spaces_get_publishable_resources spaces_get_members
      spaces_get_invitable_members get_external_connections_requests_page
      get_external_connections_details_page`,
    3: `update_history_item add_client_matters update_client_matters set_vault_example_project
      unset_vault_example_project create_vault_folder create_vault_review_query upload_vault_files
      update_vault_file_metadata update_vault_folder_metadata retry_vault_files
      rerun_vault_review_queries mark_review_event_completed clear_vault_query_errors
      create_dms_one_way_sync trigger_dms_one_way_sync update_dms_one_way_sync dms_folder_upload
      dms_file_import add_user_profile edit_user_profile`,
    4: `delete_history_item create_user_group add_user_group_members remove_user_group_members
      delete_user_group spaces_add_members_to_space spaces_member_approval_changed
      spaces_remove_member_from_space spaces_leave_space spaces_create_space spaces_update_space
      spaces_delete_space`,
    5: `delete_client_matters delete_vault_files delete_vault_folder delete_dms_one_way_sync
      create_vault_folder_sharing_permissions update_vault_folder_sharing_permissions
      delete_vault_folder_sharing_permissions create_event_sharing_permissions
      update_event_sharing_permissions bulk_patch_resource_access revoke_resource_access
      spaces_add_resources_to_space spaces_resource_approval_changed spaces_resource_unshared
      export_library dms_file_export export_playbook export_playbook_review`,
    6: `connect_integration disconnect_integration fetch_integration_token enable_workspace_feature
      disable_workspace_feature`,
  },
  system: { 2: 'trigger_dms_one_way_sync' },
}

const groupNames: Readonly<Record<string, string>> = {
  auth: 'Authentication',
  api: 'API',
  admin: 'Admin',
  user: 'User',
  vault: 'Vault inventory',
  system: 'System',
}
const outcomes: Readonly<Record<string, string>> = { 'auth:login': 'success', 'auth:failed': 'failure' }
const acronyms = /\b(?:dms|api|ooxml)\b/g

function documentedType(group: string, action: string, severity: number): EventType {
  const classId = `${group}:${action}`
  const words = action.replaceAll('_', ' ').replace(acronyms, (word) => word.toUpperCase())
  const name = `${groupNames[group] ?? group}: ${words}`
  return { classId, name, severity, category: group, action, outcome: outcomes[classId] ?? '' }
}

/** Every documented type of audit entry. */
const documented: ReadonlyMap<string, EventType> = new Map(
  Object.entries(severities).flatMap(([group, bySeverity]) =>
    Object.entries(bySeverity).flatMap(([severity, actions]) =>
      actions.split(/\s+/).map((action) => {
        const type = documentedType(group, action, Number(severity))
        return [type.classId, type] as const
      }),
    ),
  ),
)

function sourceType(classId: string, name: string, severity: number): EventType {
  return { classId, name, severity, category: '', action: '', outcome: '' }
}

const bySource: Readonly<Record<SourceName, EventType>> = {
  audit: sourceType('audit', 'Audit entry without a type', 3),
  'history.usage': sourceType('history.usage', 'Usage event', 1),
  'history.query': sourceType('history.query', 'Query event', 1),
  'vault.projects': sourceType('vault.projects', 'Vault project', 2),
  assistant: sourceType('assistant', 'Assistant entry', 3),
}

/** Entries of the other sources have no type of their own. */
const hasTypes = (source: SourceName): boolean => source === 'audit' || source === 'vault.projects'

/** New types may appear at any time: an undocumented one keeps its name and gets severity 3. */
export function eventType(source: SourceName, type: string): EventType {
  if (!hasTypes(source) || type === '') return bySource[source]
  const known = documented.get(type)
  if (known) return known
  const colon = type.indexOf(':')
  const [category, action] = colon < 0 ? ['', ''] : [type.slice(0, colon), type.slice(colon + 1)]
  return { classId: type, name: 'Type that is not documented', severity: 3, category, action, outcome: '' }
}

export const documentedTypes: readonly EventType[] = [...documented.values()]
