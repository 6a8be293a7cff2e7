// What is announced and not in this version yet: refused with a word that says so.

/** Formats that an operator may ask for. */
export const laterWords: readonly string[] = ['ecs', 'ocsf']
