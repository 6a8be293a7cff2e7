// The things that the people of the mock work on, by number: vault projects, review tables, playbooks, workflows, spaces, matters. Every area names the same ones.
import { mix } from './random.ts'
import { uuidStream } from './uuids.ts'

const subjects = [
  'Alder Holdings merger',
  'Birch lease portfolio',
  'Cedar licence dispute',
  'Dogwood tender',
  'Elm settlement',
  'Fir supply agreements',
  'Ginkgo board minutes',
  'Hazel data room',
  'Ivy employment claims',
  'Juniper refinancing',
]
const kinds = ['Due diligence', 'Contracts', 'Correspondence', 'Precedents']

/** How many vault projects people work in; the listing may hold more. */
export const PROJECTS = subjects.length * kinds.length

/** Name of vault project `n` (0 to PROJECTS - 1), the same in the listing and in history events. */
export function projectName(n: number): string {
  const subject = subjects[n % subjects.length] ?? ''
  const kind = kinds[Math.floor(n / subjects.length) % kinds.length] ?? ''
  return `${subject}: ${kind.toLowerCase()}`
}

/** Id of vault project `n` of the workspace with this seed. */
export function projectId(seed: number, n: number): string {
  return uuidStream(seed, 'vault project').at(n)
}

/** Each project has up to three review tables; its number within the project, from 0. */
export function reviewTableName(n: number, table: number): string {
  return `${['Change of control', 'Key dates', 'Obligations'][table % 3] ?? ''} – ${subjects[n % subjects.length] ?? ''}`
}

/** The integer by which the vault knows that table. */
export function reviewTableId(n: number, table: number): number {
  return 700_000 + n * 10 + (table % 3)
}

export const playbooks: readonly string[] = [
  'NDA (mutual)',
  'Share purchase, buyer’s side',
  'SaaS terms',
  'Data processing addendum',
  'Commercial lease',
]

export const workflows: readonly string[] = [
  'Draft a chronology',
  'Summarise a deposition',
  'Compare with precedent',
  'Translate and flag risks',
]

export const spaces: readonly string[] = ['Client portal Alder', 'Co-counsel Cedar', 'Panel firms']

/** Client-matter number `n`, as `cm_id` writes it. */
export function matterId(n: number): string {
  return `${100_000 + (mix(n, 71) % 900_000)}-${String(1 + (mix(n, 72) % 99)).padStart(2, '0')}`
}

/** A number from an entry's id: what is chosen by it, every area chooses alike. */
export function keyedBy(entryId: string, salt: number): number {
  let hash = salt
  for (let i = 0; i < entryId.length; i++) hash = mix(hash, entryId.charCodeAt(i))
  return hash
}

/** The vault project that an audit entry about the vault is about: its history event names it, the vault changes it. */
export function projectOf(entryId: string): number {
  return keyedBy(entryId, 1) % PROJECTS
}

/** The name of the review table that an audit entry made or ran. */
export function reviewTableOf(entryId: string): string {
  return reviewTableName(projectOf(entryId), keyedBy(entryId, 2) % 3)
}
