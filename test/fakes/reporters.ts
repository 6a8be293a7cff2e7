// Reporters that remember the loops' reports.
import type { ConnectorError } from '../../src/core/errors.ts'
import type { Appended } from '../../src/contracts/source.ts'
import type {
  AnswerRead,
  Asked,
  Recalled,
  SinkState,
  SinkReporter,
  SourceState,
  StreamReporter,
} from '../../src/contracts/reporter.ts'

export class SourceNotes implements StreamReporter {
  readonly states: SourceState[] = []
  readonly errors: ConnectorError[] = []
  readonly triesInMs: number[] = []
  readonly codes: string[] = []
  readonly parts: Appended[] = []
  waitedMs = 0
  waitsForMemoryNow = 0
  answersNow = 0
  piecesCame = 0
  successes = 0
  caughtUps = 0
  headUs = 0
  cursorUs = 0
  gaps = 0
  readonly latenesses: number[] = []
  readonly recalls: Recalled[] = []

  state(state: SourceState, error?: ConnectorError, tryInMs?: number): void {
    this.states.push(state)
    if (error) this.errors.push(error)
    if (tryInMs !== undefined) this.triesInMs.push(tryInMs)
  }
  request(code: string): void {
    this.codes.push(code)
  }
  waited(durationMs: number): void {
    this.waitedMs += durationMs
  }
  waitsForMemory(): () => void {
    this.waitsForMemoryNow++
    return () => this.waitsForMemoryNow--
  }
  readsAnswer(): AnswerRead {
    this.answersNow++
    return { came: () => this.piecesCame++, over: () => this.answersNow-- }
  }
  appended(appended: Appended): void {
    this.parts.push(appended)
  }
  success(): void {
    this.successes++
  }
  caughtUp(): void {
    this.caughtUps++
  }
  recalled(last: Recalled): void {
    this.recalls.push(last)
  }
  head(atUs: number): void {
    this.headUs = atUs
  }
  cursor(atUs: number): void {
    this.cursorUs = atUs
  }
  gap(count: number): void {
    this.gaps += count
  }
  ownFetch(latenessMs: number): void {
    this.latenesses.push(latenessMs)
  }

  sum(name: 'added' | 'late' | 'known' | 'filtered' | 'quarantined' | 'findings'): number {
    return this.parts.reduce((total, part) => total + part[name], 0)
  }
}

export class SinkNotes implements SinkReporter {
  readonly states: SinkState[] = []
  readonly errors: ConnectorError[] = []
  readonly triesInMs: number[] = []
  readonly retries: string[] = []
  readonly probes: string[] = []
  readonly probesInMs: number[] = []
  /** deliveries that are with the sink */
  underWay = 0
  accepted = 0
  deadLettered = 0
  filtered = 0
  requests = 0
  delays = 0
  successes = 0
  certificateEndsAt = 0

  state(state: SinkState, error?: ConnectorError, tryInMs?: number): void {
    this.states.push(state)
    if (error) this.errors.push(error)
    if (tryInMs !== undefined) this.triesInMs.push(tryInMs)
  }
  probed(error?: ConnectorError, tryInMs?: number): void {
    this.probes.push(error?.code ?? 'ready')
    if (tryInMs !== undefined) this.probesInMs.push(tryInMs)
  }
  tried(): boolean {
    return this.requests > 0
  }
  delivering(): () => void {
    this.underWay++
    return () => {
      this.underWay--
      this.requests++
    }
  }
  asked(): Asked {
    return { moved: () => undefined, over: () => undefined }
  }
  active(): void {
    // nothing waits
  }
  retry(reason: string): void {
    this.retries.push(reason)
  }
  certificateEnds(endsAt: number): void {
    this.certificateEndsAt = endsAt
  }
  acknowledged(counts: { accepted: number; deadLettered: number; filtered: number }): void {
    this.accepted += counts.accepted
    this.deadLettered += counts.deadLettered
    this.filtered += counts.filtered
  }
  delivered(_delayMs: number, entries: number): void {
    this.delays += entries
  }
  success(): void {
    this.successes++
  }
}
