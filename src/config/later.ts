// What the contract names and this version does not carry out yet: accepted as off, refused with a clear word as on. One place to switch each on.
import { z } from 'zod'
import { duration } from '../model/units.ts'
import { interval, start } from './fields.ts'

/** Formats that an operator may know from the contract. */
export const laterWords: readonly string[] = ['ecs', 'ocsf']

const off = (onUnlessSaid: boolean) =>
  z
    .boolean()
    .default(onUnlessSaid)
    .refine((on) => !on, 'is not in this version yet: set it to false')

export const history = () =>
  z.strictObject({
    version: z.enum(['v2', 'v1']).default('v2').describe('Version of the history API.'),
    usage: off(true).describe('Read usage events. Not in this version yet.'),
    query: off(false).describe('Read prompts and responses. Not in this version yet.'),
    interval: interval().prefault('15m').describe('How often to read.'),
    start: start().prefault('7d').describe('Where to begin when nothing was read yet.'),
    reread: duration().prefault('3d').describe('The trailing span that is read again.'),
  })

export const vault = () =>
  z.strictObject({
    projects: off(false).describe('Read the inventory of projects and its changes. Not in this version yet.'),
    interval: interval().prefault('6h').describe('How often to read.'),
  })

export const canary = () =>
  z.strictObject({
    enabled: off(false).describe('Make an entry now and then and wait to see it. Not in this version yet.'),
    interval: interval().prefault('1h').describe('How often to make one.'),
  })
