// How much memory a writer keeps from one use to the next: what one huge entry made it grow to is let go of.

/** What a writer keeps that frames an entry at a time. */
export const ENTRY_SPARE_BYTES = 1024 * 1024
/** What a writer keeps that frames what a piece of the journal has for one object. */
export const PIECE_SPARE_BYTES = 2 * 1024 * 1024
/** What a writer keeps that frames a batch. */
export const BATCH_SPARE_BYTES = 4 * 1024 * 1024
