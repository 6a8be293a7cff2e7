// Audit entries that represent a question to the product: each has a usage event, and mostly a
// query event, of its user and second.
import type { HistoryDefect } from './switches.ts'

/** Values of product_surface_area (spec §2.3). */
export type Surface = 'ASSISTANT' | 'VAULT' | 'PLAYBOOK' | 'WORKFLOW' | 'WORD' | 'MAIL' | 'DRAFT'

interface AskKind {
  /** one is chosen */
  readonly surfaces: readonly Surface[]
  readonly accessPoint: string
  readonly action: string
  /** false: nothing was asked or answered, so there is only a usage event */
  readonly hasText: boolean
}

const said = (surface: Surface, accessPoint: string, action: string): AskKind => ({
  surfaces: [surface],
  accessPoint,
  action,
  hasText: true,
})
const word = (action: string) => said('WORD', 'WORD_ADD_IN', action)

const kinds: Readonly<Record<string, AskKind>> = {
  'user:create_query': {
    ...said('ASSISTANT', 'WEB', 'CREATE'),
    surfaces: ['ASSISTANT', 'ASSISTANT', 'ASSISTANT', 'ASSISTANT', 'WORKFLOW', 'DRAFT', 'VAULT'],
  },
  'api:create_query': said('ASSISTANT', 'API', 'CREATE'),
  'user:create_vault_review_query': said('VAULT', 'WEB', 'CREATE'),
  'user:rerun_vault_review_queries': said('VAULT', 'WEB', 'RUN'),
  'user:semantic_search_with_vault_folder': said('VAULT', 'WEB', 'SEARCH'),
  'user:create_playbook': { ...said('PLAYBOOK', 'WEB', 'CREATE'), hasText: false },
  'user:review_playbook_document': said('PLAYBOOK', 'WEB', 'RUN'),
  'user:playbook_suggest': said('PLAYBOOK', 'WORD_ADD_IN', 'RUN'),
  'user:word_add_in_ask': word('CREATE'),
  'user:word_add_in_docx_drafting': word('DRAFT'),
  'user:word_add_in_proofread_document': word('RUN'),
  'user:word_redact': word('RUN'),
  'user:word_fill_template': word('RUN'),
  'user:word_suggest': word('CREATE'),
  'user:word_add_in_translation': word('RUN'),
  'user:mail_add_in_ask': said('MAIL', 'MAIL_ADD_IN', 'CREATE'),
}

const byType = new Map(Object.entries(kinds))

/** @internal for tests */
export const askTypes: readonly string[] = [...byType.keys()]

/** Undefined for entries without events in the history. */
export function askKindOf(type: string): AskKind | undefined {
  return byType.get(type)
}

/** One question in the history. */
export interface Ask {
  /** of its audit entry */
  readonly entryId: string
  readonly atUs: number
  readonly type: string
  readonly user: string
  /** from when on the history shows it, epoch ms */
  readonly visibleAt: number
  readonly defect: HistoryDefect | undefined
  /** of a completion: the real question and answer */
  readonly completion: Completion | undefined
}

export interface Completion {
  readonly prompt: string
  readonly response: string
  readonly mode: string
  readonly model: string
  /** name of the attached file; empty if there is none */
  readonly file: string
}
