// The people of the mock's workspaces, what they work on, and the metadata of their entries.
import type { Random } from '../core/clock.ts'
import { DAY_US } from '../core/time.ts'
import { below, keyedBy, listOf, mix, pick, uuidStream } from './random.ts'
import { stampOf } from './render.ts'

const first = 'ada ben chloe dmitri elena farid grace hugo ines jonas keiko liam maria noor omar priya'.split(
  ' ',
)
const last = 'adler bauer costa duval evans fischer garcia haddad ito jensen kovac lopez'.split(' ')
export const PEOPLE = 60

const names = Array.from(
  { length: PEOPLE },
  (_, n) => `${first[n % first.length] ?? ''}.${last[(n * 7) % last.length] ?? ''}${n < 16 ? '' : n}`,
)

const agents = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Safari/605.1.15',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0',
  'WordAddIn/4.2 (Windows)',
  'MailAddIn/2.9 (macOS)',
  'python-requests/2.32.3',
]

interface Actor {
  readonly user: string
  readonly ip: string
  readonly userAgent: string
}

/** The address of number `person` of a workspace. */
export function userOf(person: number, domain: string): string {
  return `${names[person % PEOPLE] ?? ''}@${domain}`
}

/** Person number `person` of a workspace; always with the same few addresses and clients. */
export function actorOf(person: number, random: Random, domain: string): Actor {
  const n = person % PEOPLE
  const office = random() < 0.7
  const ip = office
    ? `203.0.113.${10 + n}`
    : random() < 0.3
      ? `2001:db8:${(n + 1).toString(16)}::${below(random, 65_535).toString(16)}`
      : `198.51.100.${below(random, 254) + 1}`
  const userAgent = agents[(n + (random() < 0.2 ? 1 : 0)) % agents.length] ?? ''
  return { user: userOf(person, domain), ip, userAgent }
}

export function drawPerson(random: Random): number {
  return Math.floor(random() ** 1.7 * PEOPLE)
}

const words = ['Merger', 'Lease', 'NDA', 'Due diligence', 'Licence', 'Settlement', 'Tender', 'Board minutes']

const id = (random: Random) => `${below(random, 900_000) + 100_000}`

const zoned = (us: number) => `${stampOf(us).slice(0, 19)}+00:00`

/** If the documents leave it open, mostly an empty object. */
const shapes: readonly ((random: Random) => string)[] = [
  (random) => `{"count":${below(random, 40)}}`,
  (random) => `{"project_id":${id(random)},"name":"${pick(random, words)} ${below(random, 90)}"}`,
  (random) => `{"ids":[${id(random)},${id(random)}],"source":"WEB"}`,
  (random) =>
    `{"folder":"/Clients/${pick(random, words)}/${below(random, 90)}","file_ids":[${id(random)},${id(random)},${id(random)}],"file_name":"${pick(random, words)} (final).docx","size_bytes":${below(random, 9e6)}}`,
  (random) =>
    `{"client_matter":"${id(random)}-${below(random, 99)}","surface":"ASSISTANT","access_point":"WEB","thread_id":${id(random)}}`,
  (random) => `{"before":{"role":"member"},"after":{"role":"editor","granted":${random() < 0.5}}}`,
]

/** Legal JSON that breaks careless readers. */
const oddities: readonly string[] = [
  '{"event_id":9007199254740993,"size":18446744073709551615,"ratio":1.0000000000000000001,"tiny":1e-400}',
  '{"name":"Žluťoučký kůň 法務 🦀 ‏شركة","note":"\\u017d\\u006c\\ud83e\\udd80 \\/ \\" \\\\ \\b\\f\\n\\r\\t"}',
  '{"a":{"b":{"c":{"d":{"e":{"f":[[[[[{"g":null}]]]]]}}}}}}',
  '{"__proto__":{"admin":true},"constructor":"x","":"empty key"}',
  '{"text":"}],[{\\"id\\":\\"not an entry\\"},"}',
  '{"lone":"\\ud800","zero":-0,"line":"\u2028\u2029"}',
  '{"same":1,"same":2}',
]

/** JSON text of `data`. */
export function dataOf(type: string, atUs: number, random: Random, exotic: boolean): string {
  if (exotic && random() < 0.7) return pick(random, oddities)
  if (type === 'admin:fetch_workspace_history') {
    const span = (below(random, 30) + 1) * DAY_US
    return `{"begin_date":"${zoned(atUs - span)}","end_date":"${zoned(atUs)}","num_events":${below(random, 5000)}}`
  }
  if (type === 'admin:client_view_workspace_history_item') return `{"event_id":${id(random)}}`
  return random() < 0.3 ? '{}' : pick(random, shapes)(random)
}

// What the people work on, by number. All areas use the same names.

const subjects = listOf(`
  Alder Holdings merger; Birch lease portfolio; Cedar licence dispute; Dogwood tender; Elm settlement;
  Fir supply agreements; Ginkgo board minutes; Hazel data room; Ivy employment claims; Juniper refinancing
`)
const kinds = ['Due diligence', 'Contracts', 'Correspondence', 'Precedents']

/** Number of vault projects that people work in; the listing may have more. */
export const PROJECTS = subjects.length * kinds.length

/** Name of vault project `n` (0 to PROJECTS - 1), the same in the listing and in history events. */
export function projectName(n: number): string {
  const subject = subjects[n % subjects.length] ?? ''
  const kind = kinds[Math.floor(n / subjects.length) % kinds.length] ?? ''
  return `${subject}: ${kind.toLowerCase()}`
}

/** Id of vault project `n` of the workspace with this seed. */
export function projectId(seed: number, n: number): string {
  return uuidStream(seed, 'vault project')(n)
}

/** Each project has up to three review tables; its number within the project, from 0. */
export function reviewTableName(n: number, table: number): string {
  return `${['Change of control', 'Key dates', 'Obligations'][table % 3] ?? ''} – ${subjects[n % subjects.length] ?? ''}`
}

/** The integer id of that table in the vault. */
export function reviewTableId(n: number, table: number): number {
  return 700_000 + n * 10 + (table % 3)
}

export const playbooks = listOf(
  'NDA (mutual); Share purchase, buyer’s side; SaaS terms; Data processing addendum; Commercial lease',
)

export const workflows = listOf(
  'Draft a chronology; Summarise a deposition; Compare with precedent; Translate and flag risks',
)

export const spaces: readonly string[] = ['Client portal Alder', 'Co-counsel Cedar', 'Panel firms']

/** Client-matter number `n`, as `cm_id` writes it. */
export function matterId(n: number): string {
  return `${100_000 + (mix(n, 71) % 900_000)}-${String(1 + (mix(n, 72) % 99)).padStart(2, '0')}`
}

/** The vault project of an entry: its history event names it, and the vault changes it. */
export function projectOf(entryId: string): number {
  return keyedBy(entryId, 1) % PROJECTS
}

/** The name of the review table that an audit entry created or ran. */
export function reviewTableOf(entryId: string): string {
  return reviewTableName(projectOf(entryId), keyedBy(entryId, 2) % 3)
}
