// Takes docs/images/status-*.png from the built program: the status page of the demo after some minutes, in this machine's Chromium. Run `npm run build` first.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { chromiumPath, openBrowser } from '../test/browser/chromium.ts'

const MOST_BYTES = 150_000
/** Half minutes in the page's charts: enough to show something. */
const POINTS = Number(process.argv[2] ?? 10)
const MOST_MS = (POINTS + 4) * 30_000

interface Status {
  readonly ok: boolean
  readonly history: { readonly read: readonly number[] }
  readonly sinks: readonly { readonly state: string }[]
}

const path = chromiumPath()
if (path === undefined)
  throw new Error('no Chromium found: name one in AUDITFERRY_CHROMIUM, or run .ci/tools/chromium.sh')

const data = mkdtempSync(join(tmpdir(), 'auditferry-screenshots-'))
const demo = spawn(process.execPath, ['dist/main.js', 'demo', '--listen', '127.0.0.1:0', '--data', data], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = new Promise<void>((resolve) => demo.once('exit', () => resolve()))

const url = await new Promise<string>((resolve, reject) => {
  let printed = ''
  demo.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
    const address = /status page\s+(http\S+)/.exec(printed)?.at(1)
    if (address !== undefined) resolve(address)
  })
  void ended.then(() => reject(new Error('the demo ended before it printed its status page')))
})

async function settled(): Promise<void> {
  const deadline = Date.now() + MOST_MS
  for (;;) {
    const { ok, history, sinks } = (await (await fetch(`${url}status`)).json()) as Status
    if (ok && history.read.length >= POINTS && sinks.every(({ state }) => state === 'idle')) return
    if (Date.now() > deadline) throw new Error(`the demo did not come to rest within ${MOST_MS / 1000} s`)
    await sleep(500)
  }
}

try {
  await settled()
  const browser = await openBrowser(path)
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ viewport: { width: 1120, height: 790 }, colorScheme })
    const page = await context.newPage()
    await page.goto(url)
    const image = await page.screenshot()
    if (image.length > MOST_BYTES)
      throw new Error(`${colorScheme}: the picture has ${image.length} bytes; ${MOST_BYTES} are allowed`)
    writeFileSync(`docs/images/status-${colorScheme}.png`, image)
    process.stdout.write(`docs/images/status-${colorScheme}.png: ${image.length} bytes\n`)
    await context.close()
  }
  await browser.close()
} finally {
  demo.kill('SIGINT')
  await ended
  rmSync(data, { recursive: true, force: true })
}
