// The canary of a workspace in the configuration: whether a prompt of our own is sent now and then, and how often.
import { z } from 'zod'
import { duration } from '../model/units.ts'

export const canary = () =>
  z.strictObject({
    enabled: z
      .boolean()
      .default(false)
      .describe('Send a tiny prompt now and then and measure when its traces come back.'),
    interval: duration()
      .refine((ms) => ms >= 60_000, 'want at least 1m: each one is a prompt to the assistant')
      .prefault('1h')
      .describe('How often to send one.'),
  })
