// The steps of one entry's way at which the program is killed: each once before and once after what must not be torn apart.
export const crashSteps = [
  'request sent',
  'page read, not appended',
  'page appended',
  'intent written',
  'file half written',
  'file written, not synced',
  'file synced, not settled',
  'HEC answered, not settled',
  'batch settled',
] as const
/** Of the history, whose answers are kept in chunks, and of the vault. */
export const areaSteps = ['history answer half read', 'history part appended', 'vault page appended'] as const
/** Of a replay that is read from the API. */
type ReplayStep = 'page read again, not kept' | 'page read again, kept'
export type CrashStep = (typeof crashSteps)[number] | (typeof areaSteps)[number] | ReplayStep
