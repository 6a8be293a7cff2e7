// The vault of one workspace in the configuration: whether its projects are read, and how often.
import { z } from 'zod'
import { interval } from './fields.ts'

export const vault = () =>
  z.strictObject({
    projects: z
      .boolean()
      .default(false)
      .describe(
        'Read the list of projects: the first time an inventory, then what changes in it. Source vault.projects. The key needs the permission View workspace projects.',
      ),
    interval: interval()
      .prefault('6h')
      .describe('How long to wait after the list was read to its end until it is read again.'),
  })
