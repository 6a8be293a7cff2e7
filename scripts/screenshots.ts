// Draws docs/images/status-*.png anew: the status page after an ordinary hour, in the Chromium of this machine.
import { writeFileSync } from 'node:fs'
import { chromiumPath, openBrowser } from '../test/browser/chromium.ts'
import { openStand } from '../test/browser/stand.ts'

const MOST_BYTES = 150_000

const path = chromiumPath()
if (path === undefined) throw new Error('there is no Chromium here: name one in AUDITFERRY_CHROMIUM')
const stand = await openStand()
stand.hour()
const browser = await openBrowser(path)
try {
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ viewport: { width: 1120, height: 790 }, colorScheme })
    const page = await context.newPage()
    await page.goto(stand.url)
    const image = await page.screenshot()
    if (image.length > MOST_BYTES) throw new Error(`${colorScheme}: ${image.length} bytes are too many`)
    writeFileSync(`docs/images/status-${colorScheme}.png`, image)
    process.stdout.write(`docs/images/status-${colorScheme}.png: ${image.length} bytes\n`)
    await context.close()
  }
} finally {
  await browser.close()
  await stand.close()
}
