// Two `reconcile` commands with one daemon: the second is refused, and the first goes on.
import { expect, test } from 'vitest'
import { reconcile } from '../../../../src/cli/reconcile/reconcile.ts'
import { connectControl } from '../../../../src/control/client.ts'
import { DAY, dayText, openPastSetup, today } from '../past-setup.ts'

test('while one runs another is refused at once with what to do, and works once the first has ended', async () => {
  const setup = await openPastSetup()
  try {
    await setup.daemon()
    const options = { config: setup.config, from: dayText(3), json: false }
    const first = await connectControl(setup.path)
    const request = { job: 'first', fromUs: (today() - DAY) * 1000, toUs: today() * 1000 }
    await first?.compare(request)
    setup.heard()
    await expect(reconcile(setup.context, options)).rejects.toThrow(
      'Another reconcile is reading acme audit: wait',
    )
    expect(setup.heard()).toMatchObject({ stdout: '', stderr: '' })
    expect(await first?.compare(request)).toMatchObject({ isDone: true })
    await first?.endCompare('first')
    expect(await reconcile(setup.context, options)).toBe(0)
    expect(await reconcile(setup.context, options)).toBe(0)
  } finally {
    await setup.close()
  }
})
