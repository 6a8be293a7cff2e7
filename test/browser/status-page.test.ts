// The status page in a real Chromium: with and without a script, dark and light, narrow, by keyboard, under its own policy.
import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { chromiumPath, openBrowser } from './chromium.ts'
import { axeFindings, background, focus, overflow, place, announced, trespass, watchNews } from './in-page.ts'
import type { Focus, Place } from './in-page.ts'
import { openSetup, trouble } from './sample-status.ts'
import type { Setup } from './sample-status.ts'

const path = chromiumPath()
if (path === undefined)
  process.stderr.write(
    'SKIPPED: there is no Chromium here, the status page is not looked at. Install one (.ci/tools/chromium.sh), or name it in AUDITFERRY_CHROMIUM\n',
  )

describe.skipIf(path === undefined)('the status page in Chromium', () => {
  let browser: Browser
  let setup: Setup
  /** the browser's complaints: refused by the policy, thrown, not found */
  let complaints: string[]

  beforeAll(async () => {
    browser = await openBrowser(path ?? '')
  })
  afterAll(() => browser.close())
  beforeEach(async () => {
    complaints = []
    setup = await openSetup()
    setup.hour()
  })
  afterEach(async () => {
    await Promise.all(browser.contexts().map((context) => context.close()))
    await setup.close()
    expect(complaints).toEqual([])
  })

  async function open({ held = false, ...options }: BrowserContextOptions & { held?: boolean } = {}) {
    const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options })
    // With control of the browser's clock the script's pauses take no time.
    if (held) await context.clock.install()
    const page = await context.newPage()
    page.setDefaultTimeout(15_000)
    page.on('pageerror', (error) => complaints.push(error.message))
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    await page.goto(setup.url)
    return page
  }

  const heading = (page: Page) => page.locator('h1')
  const state = (page: Page, row: string) => page.locator(`tr[data-key="${row}"] .state`)

  it('is complete without a script, and asks to be reloaded', async () => {
    const page = await open({ javaScriptEnabled: false })
    expect(await heading(page).textContent()).toMatch(
      /^All caught up: last delivery 14\s s ago|^All caught up/,
    )
    expect(await page.locator('tr[data-key^="source "]').count()).toBe(3)
    expect(await page.locator('tr[data-key^="sink "]').count()).toBe(2)
    expect(await page.locator('svg.spark').count()).toBe(3)
    expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(1)
    expect(await page.locator('#hold').isVisible()).toBe(false)
    await page.locator('summary', { hasText: 'Configuration' }).click()
    expect(await page.locator('pre').textContent()).toContain('api_key: "***"')
  })

  it('brings changes into the open page: scroll, focus and open parts stay', async () => {
    const page = await open({ held: true, viewport: { width: 600, height: 300 } })
    expect(await page.locator('meta[http-equiv=refresh]').count()).toBe(0)
    await page.locator('summary', { hasText: 'Configuration' }).click()
    await page.locator('summary', { hasText: 'acme' }).click()
    await page.locator('pre').focus()
    await page.locator('pre').scrollIntoViewIfNeeded()
    const marks = () => page.evaluate<Place>(place)
    const before = await marks()
    expect(before).toMatchObject({ focus: 'PRE', open: [false, true], sameRow: true })
    trouble(setup)
    await page.clock.runFor(6_000)
    await page.locator('h1.bad').waitFor()
    expect(await state(page, 'sink siem').textContent()).toBe('failing')
    expect(await page.locator('tr.fault[data-key="sink siem fault"]').textContent()).toContain(
      'refused the connection',
    )
    expect(await page.title()).toMatch(/^attention/)
    expect(await marks()).toEqual({ ...before, at: expect.closeTo(before.at, -1) as number })
    setup.siem.success()
    setup.readers[1]?.success()
    await page.clock.runFor(6_000)
    await page.locator('h1.good').waitFor()
    expect(await page.locator('tr.fault[data-key="sink siem fault"]').count()).toBe(0)
    expect(await marks()).toEqual({ ...before, at: expect.closeTo(before.at, -1) as number })
  })

  it('announces to a screen reader when a state changes, and not when seconds pass', async () => {
    const page = await open({ held: true })
    const news = page.locator('[role=status]')
    await page.evaluate(watchNews)
    const changes = () => page.evaluate<number>(announced)
    setup.clock.pass(5_000)
    await page.clock.runFor(6_000)
    await page.locator('h1', { hasText: '19' }).waitFor()
    expect(await changes()).toBe(0)
    trouble(setup)
    await page.clock.runFor(6_000)
    await page.locator('h1.bad').waitFor()
    expect(await changes()).toBe(1)
    expect(await news.textContent()).toBe('Attention: acme history.usage is blocked, siem is failing')
  })

  it('pauses by its button, and shows that', async () => {
    const page = await open({ held: true })
    const button = page.getByRole('button', { name: 'Pause' })
    await button.click()
    expect(await button.getAttribute('aria-pressed')).toBe('true')
    setup.clock.pass(60_000)
    await page.clock.runFor(30_000)
    expect(await heading(page).textContent()).toContain('14')
    await button.click()
    await page.locator('h1', { hasText: '74' }).waitFor()
    expect(await button.getAttribute('aria-pressed')).toBe('false')
  })

  it('a request from before the pause changes nothing within it', async () => {
    const page = await open({ held: true })
    const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
    await page.route(setup.url, async (route) => {
      await answered
      await route.continue()
    })
    const asked = page.waitForRequest(setup.url)
    await page.clock.runFor(6_000)
    await asked
    await page.getByRole('button', { name: 'Pause' }).click()
    setup.clock.pass(60_000)
    const replied = page.waitForResponse(setup.url)
    answer(undefined)
    await (await replied).finished()
    await page.evaluate(
      'new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))',
    )
    expect(await heading(page).textContent()).toContain('14')
  })

  it('shows when the daemon does not answer, and keeps the last report', async () => {
    const page = await open({ held: true })
    await page.route('**/*', (route) => route.abort())
    await page.clock.runFor(6_000)
    await page.locator('#lost').waitFor()
    expect(await page.locator('#lost').textContent()).toMatch(/^No answer since /)
    expect(await heading(page).textContent()).toContain('All caught up')
    await page.unroute('**/*')
    await page.clock.runFor(6_000)
    await page.locator('#lost').waitFor({ state: 'hidden' })
    complaints = complaints.filter((text) => !/ERR_FAILED/.test(text))
  })

  it('text of a receiver stays text: nothing in it runs or loads', async () => {
    trouble(
      setup,
      '<script>document.title="run"</script><img src="/x" onerror="document.title=\'run\'"></main>',
    )
    const asked: string[] = []
    const page = await open({ held: true })
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    setup.siem.state('sending')
    setup.clock.pass(5_000)
    await page.clock.runFor(6_000)
    await page.locator('h1', { hasText: '5 s' }).waitFor()
    expect(await page.title()).toMatch(/^attention/)
    expect(await page.locator('main img, main script').count()).toBe(0)
    expect(await page.locator('tr.fault[data-key="sink siem fault"]').textContent()).toContain(
      '<script>document.title',
    )
    expect(asked.every((path) => path === '/')).toBe(true)
  })

  it('its policy allows nothing else: no inline script, no handler, no style, no frame, no other origin', async () => {
    const page = await open()
    const blocked = await page.evaluate<string[]>(trespass)
    expect(blocked).toEqual([
      'connect-src',
      'frame-src',
      'script-src-attr',
      'script-src-elem',
      'style-src-attr',
      'style-src-elem',
    ])
    expect(await page.title()).toMatch(/^ok/)
    complaints = complaints.filter((text) => !/Content Security Policy/.test(text))
  })

  it.each([320, 768, 1200])('fits %i px without scrolling sideways, healthy or failing', async (width) => {
    const page = await open({ viewport: { width, height: 640 } })
    const wider = () => page.evaluate<number>(overflow)
    expect(await wider()).toBeLessThanOrEqual(0)
    trouble(setup, 'x'.repeat(300))
    await page.reload()
    await page.locator('summary', { hasText: 'Configuration' }).click()
    expect(await wider()).toBeLessThanOrEqual(0)
  })

  it('is dark if the reader prefers dark', async () => {
    const back = (page: Page) => page.evaluate<string>(background)
    const lightness = (color: string) =>
      (color.match(/\d+/g) ?? []).map(Number).reduce((sum, part) => sum + part, 0) / 3
    expect(lightness(await back(await open({ colorScheme: 'light' })))).toBeGreaterThan(200)
    expect(lightness(await back(await open({ colorScheme: 'dark' })))).toBeLessThan(60)
  })

  it('can be used by keyboard, and shows the focus', async () => {
    const page = await open()
    const seen: string[] = []
    for (let i = 0; i < 8; i++) {
      await page.keyboard.press('Tab')
      const at = await page.evaluate<Focus>(focus)
      seen.push(at.text)
      expect(at.outline, at.text).not.toBe('none')
    }
    expect(seen[0]).toBe('To the status')
    expect(seen[1]).toBe('Pause')
    expect(seen[2]).toMatch(/^acme/)
    expect(seen[3]).toMatch(/^Configuration/)
    expect(seen.slice(4)).toEqual(['status', 'metrics', 'livez', 'readyz'])
    await page.keyboard.press('Shift+Tab')
    await page.locator('summary', { hasText: 'Configuration' }).focus()
    await page.keyboard.press('Enter')
    expect(await page.locator('pre').isVisible()).toBe(true)
  })

  const schemes = [
    { colorScheme: 'light', width: 320, bad: true },
    { colorScheme: 'light', width: 1200, bad: false },
    { colorScheme: 'dark', width: 320, bad: false },
    { colorScheme: 'dark', width: 1200, bad: true },
  ] as const
  it.each(schemes)(
    'axe finds no problem: $colorScheme, $width px, failing: $bad',
    async ({ colorScheme, width, bad }) => {
      if (bad) trouble(setup)
      const page = await open({ colorScheme, viewport: { width, height: 800 } })
      await page.locator('summary', { hasText: 'Configuration' }).click()
      // Through the debugger: the page's own policy would not allow it.
      await page.evaluate(axe.source)
      expect(await page.evaluate<string[]>(axeFindings)).toEqual([])
    },
  )
})
