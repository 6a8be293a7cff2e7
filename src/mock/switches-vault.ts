// Switches of the vault area: what the specification leaves open there, and how long things take.
import type { SwitchTable } from './switch-spec.ts'

export const vaultSwitches = {
  vault_status: {
    values: ['201', '200'],
    default: '201',
    says: 'the status of success of the vault area; deletions answer 200',
  },
  created_range: {
    values: ['400', 'empty'],
    default: '400',
    says: 'what the projects’ listing answers when `created_before` is not above `created_after`',
  },
  per_page_cap: {
    values: 'number',
    default: 0,
    says: 'most projects a page, whatever `per_page` asks; 0 for none',
  },
  project_date: {
    values: ['project_updated_at', 'updated_at'],
    default: 'project_updated_at',
    says: 'the field that `sort_by=date` goes by',
  },
  file_sort: {
    values: ['sort_by', 'sort'],
    default: 'sort_by',
    says: 'the sort parameters of a project’s files: `sort_by` and `sort_order`, or `sort` and `order`',
  },
  files_page: {
    values: 'number',
    default: 50,
    says: 'files a page of a project’s files, and the most that `limit` may ask for',
  },
  vault_reads: {
    values: ['metadata', 'off'],
    default: 'metadata',
    says: 'what reads without a type of their own leave: an `api:vault_get_metadata` entry, or none',
  },
  uploaded_for: {
    values: 'duration',
    default: 5000,
    says: 'how long a file is `uploaded`; seeded, half to one and a half of this',
  },
  processing_for: {
    values: 'duration',
    default: 20_000,
    says: 'how long it is `processing` then; likewise',
  },
  deletion_takes: {
    values: 'duration',
    default: 30_000,
    says: 'how long a deleted project is still listed',
  },
} as const satisfies SwitchTable
