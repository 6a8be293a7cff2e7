// What the contract names and this version does not carry out yet: refused with a word that says so.

/** Formats that an operator may know from the contract. */
export const laterWords: readonly string[] = ['ecs', 'ocsf']
