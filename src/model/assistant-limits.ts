// What the specification says of a prompt: the client holds to it before it asks, the mock when it is asked.

/** The model slugs of spec §2.7. */
export const assistantModels = [
  'alpha-5',
  'alpha-5-1',
  'alpha-5-2',
  'alpha-5-4',
  'alpha-5-4-mini',
  'alpha-5-5',
  'alpha-4-1',
  'beta-opus-4-5',
  'beta-sonnet-4-5',
  'beta-opus-4-6',
  'beta-opus-4-7',
] as const

export type AssistantModel = (typeof assistantModels)[number]

/** Spec §8: characters of a prompt, without and with a file. */
export const PROMPT_CHARACTERS = 20_000
export const PROMPT_CHARACTERS_WITH_FILE = 4_000
