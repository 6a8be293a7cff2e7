// What the contract names and this version does not carry out yet: accepted as off, refused with a clear word as on. One place to switch each on.
import { z } from 'zod'
import { interval } from './fields.ts'

/** Formats that an operator may know from the contract. */
export const laterWords: readonly string[] = ['ecs', 'ocsf']

const off = (onUnlessSaid: boolean) =>
  z
    .boolean()
    .default(onUnlessSaid)
    .refine((on) => !on, 'is not in this version yet: set it to false')

export const vault = () =>
  z.strictObject({
    projects: off(false).describe('Read the inventory of projects and its changes. Not in this version yet.'),
    interval: interval().prefault('6h').describe('How often to read.'),
  })
