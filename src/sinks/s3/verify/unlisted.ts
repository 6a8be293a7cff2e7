// Objects that no manifest lists: added by another writer, or explained by a limit of the chains.
// Pure.
import type { WalkedChain } from './chain.ts'
import type { ReportFinding, Touched } from './objects.ts'
import { type ObjectPlace, objectPlace } from './objects.ts'

/** At most this many of one kind are named. */
const NAMED = 20

const excuses = {
  newer:
    'newer than the last manifest: no manifest lists this yet; if it is genuine, the next one will; not proved',
  older: 'from before evidence was switched on: not proved',
  outside: 'after the end of one chain and before the start of another: not proved',
  blind: 'in the range of a manifest that is missing or bad: not proved',
  gap: 'stored while evidence was off: not proved',
} as const
type Excuse = keyof typeof excuses

type Standing = 'covered' | 'newer' | 'older' | 'blind' | 'gap'

/** An object across an edge counts as covered: we write none. */
function standingIn(
  { after, through, blind, gaps }: WalkedChain,
  { first, last }: Pick<ObjectPlace, 'first' | 'last'>,
): Standing {
  if (blind.some((each) => first > each.after && last <= each.through)) return 'blind'
  if (first > through) return 'newer'
  if (last <= after) return 'older'
  if (gaps.some((gap) => first >= gap.first && last <= gap.last)) return 'gap'
  return 'covered'
}

/**
 * Why an object without a manifest may exist; undefined: it may not. Its name does not identify the
 * journal: if one chain covers its number, no other chain excuses it. @internal
 */
export function excuseOf(key: string, chains: readonly WalkedChain[]): Excuse | undefined {
  const place = objectPlace(key)
  if (!place) return undefined
  const standings = new Set(chains.map((chain) => standingIn(chain, place)))
  if (standings.has('covered')) return undefined
  if (standings.has('blind') || standings.size === 0) return 'blind'
  if (standings.has('gap')) return 'gap'
  if (standings.size > 1) return 'outside'
  return standings.has('newer') ? 'newer' : 'older'
}

/** Reports the first ones by name, and then the count. */
function reportSome(where: string, report: ReportFinding, more: (count: number) => string) {
  let count = 0
  return {
    fault(key: string, what: string, touched?: Touched) {
      if (++count <= NAMED) report('fault', key, what, touched)
    },
    end() {
      if (count > NAMED) report('fault', where, more(count - NAMED))
    },
  }
}

const PUT_THERE =
  'is not listed by the manifest that covers its entries: it was added by another program or person'

/** With several journals a number proves little: another's new objects may have the same. */
function coveredBy(key: string, chains: readonly WalkedChain[]): string {
  const place = objectPlace(key)
  const waiting = place && chains.find((chain) => standingIn(chain, place) === 'newer')
  if (!waiting) return PUT_THERE
  return `${PUT_THERE}, or the chain of sink ${waiting.sink}, journal ${waiting.journal} does not list it yet, in which case the next manifest does`
}

export function reportUnlisted(
  keys: Iterable<string>,
  chains: readonly WalkedChain[],
  report: ReportFinding,
): void {
  const counts: Partial<Record<Excuse, { count: number; example: string }>> = {}
  const planted = reportSome(
    'workspace=',
    report,
    (count) => `holds ${count} more objects that no manifest lists`,
  )
  for (const key of keys) {
    const excuse = excuseOf(key, chains)
    if (excuse) counts[excuse] = { example: key, ...counts[excuse], count: (counts[excuse]?.count ?? 0) + 1 }
    else planted.fault(key, coveredBy(key, chains), objectPlace(key))
  }
  planted.end()
  for (const [excuse, { count, example }] of Object.entries(counts))
    report(
      'note',
      example,
      `${count === 1 ? 'is' : `and ${count - 1} more are`} ${excuses[excuse as Excuse]}`,
    )
}

/** Readers of the bucket take every object under these names for ours. */
const ours = /^(?:workspace=|replay=|manifest\/)/
/** What the sink's own probes leave. */
const probe = /^\.auditferry\/(?:check|probe)-[0-9a-z-]+$/
/** What `verify` meets if it is given a place above or below the right one. */
const manifestElsewhere = /(?:^|\/)journal=[0-9a-z-]+\/\d{16}\.ndjson$/
const HIDDEN = '.auditferry/'

const NOT_OURS =
  'has a name that Auditferry never uses: it was added by another program or person, and readers of the bucket may take it for entries'

/** Names of no object and no manifest: each is checked once and not kept, as there may be many. */
export function otherNames(report: ReportFinding) {
  const planted = reportSome('workspace=', report, (count) => `and ${count} more names like it`)
  const hidden = { count: 0, first: '' }
  let others = 0
  let manifests = 0
  return {
    add(key: string) {
      if (ours.test(key)) planted.fault(key, NOT_OURS)
      else if (manifestElsewhere.test(key)) manifests++
      else if (!key.startsWith(HIDDEN)) others++
      else if (!probe.test(key) && hidden.count++ === 0) hidden.first = key
    },
    end() {
      planted.end()
      const more = hidden.count === 1 ? 'is' : `and ${hidden.count - 1} more are`
      if (hidden.count > 0) report('note', hidden.first, `${more} not what the sink's probes leave there`)
      if (manifests > 0)
        report(
          'note',
          '.',
          `holds ${manifests} of this program's manifests in another place: name the folder or prefix that contains manifest/`,
        )
      if (others > 0) report('note', '.', `holds ${others} more objects that are none of this program's`)
    },
  }
}
