// Runs `npm start` as a newcomer does, on a free port: entries must flow into its file, /status must say that all is well, Ctrl-C must end it within 10 s.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** What a newcomer is promised. */
const STARTED_WITHIN_MS = 60_000
const STOPPED_WITHIN_MS = 10_000
const data = mkdtempSync(join(tmpdir(), 'auditferry-demo-'))
const file = join(data, 'demo', 'entries.ndjson')
const args = ['start', '--', '--listen', '127.0.0.1:0', '--data', data]
// A process group of its own, so that a signal reaches all of it, as Ctrl-C does.
const demo = spawn('npm', args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
let told = ''
demo.stdout.setEncoding('utf8').on('data', (text: string) => {
  told += text
  process.stdout.write(text)
})
const ended = new Promise<number | string | null>((resolve) =>
  demo.once('exit', (code, signal) => resolve(code ?? signal)),
)
let running = true
void ended.then(() => (running = false))

async function until<T>(what: string, withinMs: number, look: () => T | undefined | Promise<T | undefined>) {
  const deadline = Date.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (!running) throw new Error(`the demo ended before ${what}`)
    if (Date.now() > deadline) throw new Error(`${what}: not within ${withinMs / 1000} s`)
    await sleep(200)
  }
}

function signal(name: 'SIGINT' | 'SIGKILL'): void {
  if (demo.pid !== undefined && running) process.kill(-demo.pid, name)
}

function delivered(): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0
}

async function look(): Promise<string> {
  const page = await until('it told where to look', STARTED_WITHIN_MS, () =>
    /status page\s+(http\S+)/.exec(told)?.at(1),
  )
  const summary = await until('/status said that all is well', STARTED_WITHIN_MS, async () => {
    const reply = await fetch(`${page}status`)
    const status = (await reply.json()) as { readonly ok: boolean; readonly summary: string }
    return reply.ok && status.ok && delivered() > 0 ? status.summary : undefined
  })
  // What was there before the demo began comes at once; what comes after a pause is live traffic.
  let before = 0
  await until('the backlog was delivered', STARTED_WITHIN_MS, async () => {
    before = delivered()
    await sleep(2_000)
    return delivered() === before ? true : undefined
  })
  const entries = await until('live entries were delivered', STARTED_WITHIN_MS, () =>
    delivered() > before ? delivered() : undefined,
  )
  signal('SIGINT')
  const end = await Promise.race([ended, sleep(STOPPED_WITHIN_MS, 'late' as const)])
  // npm passes the signal on to itself when its script has ended.
  if (end !== 0 && end !== 'SIGINT')
    throw new Error(`after Ctrl-C it ended with ${end ?? 'nothing'} within 10 s`)
  if (await fetch(page).catch(() => undefined)) throw new Error('after Ctrl-C the status page still answers')
  return `${entries} entries delivered; ${summary}`
}

try {
  process.stdout.write(`demo: ${await look()}\n`)
} catch (error) {
  process.stdout.write(`demo: ${error instanceof Error ? error.message : 'failed'}\n`)
  process.exitCode = 1
} finally {
  signal('SIGKILL')
  rmSync(data, { recursive: true, force: true })
}
