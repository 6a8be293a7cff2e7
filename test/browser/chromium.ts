// The browser of this machine, driven by playwright-core, which brings none and downloads none.
import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import type { Browser } from 'playwright-core'

const usual = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** `AUDITFERRY_CHROMIUM`, or one at its usual path; undefined if there is none. */
export function chromiumPath(): string | undefined {
  const named = process.env['AUDITFERRY_CHROMIUM']
  return named !== undefined && named !== '' ? named : usual.find((path) => existsSync(path))
}

const quiet = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export function openBrowser(executablePath: string): Promise<Browser> {
  // Its sandbox needs rights that a container and root do not give; what it shows here is our own.
  return chromium.launch({ executablePath, args: ['--no-sandbox', ...quiet] })
}
