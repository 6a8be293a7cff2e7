// What the vault's operations answer (spec §2.6), as zod schemas: documented fields are checked, unknown ones kept, and what the specification leaves open is optional.
import { z } from 'zod'

const text = () => z.string().nullish()

/** `processing_status` is text, since its values beyond uploaded, processing and ready_to_query are not known. */
const fileStatus = z.looseObject({
  id: text(),
  processing_status: text(),
  content_type: text(),
  deleted_at: text(),
  /** in the place of all else: the id is not known */
  error: text(),
})
export type FileStatus = z.output<typeof fileStatus>

/** Ids and names are parallel. Sizes are whole numbers, and above 2^53 refused rather than rounded. */
export const projectMetadata = z.looseObject({
  file_ids: z.array(z.string()),
  file_names: z.array(z.string()),
  file_sizes: z.array(z.int()).nullish(),
  review_table_ids: z.array(z.int()).default([]),
})
export type ProjectMetadata = z.output<typeof projectMetadata>

const vaultFile = z.looseObject({
  id: z.string(),
  name: text(),
  content_type: text(),
  processing_status: text(),
  uploaded_at: text(),
})
export type VaultFile = z.output<typeof vaultFile>

const pagination = z.looseObject({ next_cursor: text(), has_more: z.boolean() })

/** The list's name is not given: `files` is the mock's. */
export const filePage = z.looseObject({ files: z.array(vaultFile), pagination })
export type FilePage = z.output<typeof filePage>

export const fileStatuses = z.looseObject({ files: z.array(fileStatus) })

export const uploaded = z.looseObject({ file_ids: z.array(z.string()).default([]) })
export type Uploaded = z.output<typeof uploaded>

export const reviewTable = z.looseObject({
  title: z.string(),
  created_at: z.string(),
  /** one a row of the table */
  file_ids: z.array(z.string()),
})
export type ReviewTable = z.output<typeof reviewTable>

/** What a user wrote stands in the place of what was generated: the API does that. */
export const reviewRow = z.looseObject({
  cells: z.array(z.looseObject({ summary: text(), additional_context: text() })),
})
export type ReviewRow = z.output<typeof reviewRow>

/** Said of a deletion is only that it is confirmed by its status. */
export const confirmed = z.unknown()
