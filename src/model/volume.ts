// How large a volume the bounds of the journal ask for. What its keys take is not known beforehand: it goes with how much comes.

const MIB = 2 ** 20
/** Up to here the log and the ballast take the same. */
const USUAL_ENTRY_BYTES = 16 * MIB

export interface Bounds {
  readonly maxBytes: number
  readonly keepSettledBytes: number
  /** absent: the usual one */
  readonly maxEntryBytes?: number | undefined
}

/** What the log and the ballast may take beside the file, and to spare. */
export const besideBytes = ({ maxEntryBytes = 0 }: Pick<Bounds, 'maxEntryBytes'>): number =>
  64 * MIB + 4 * Math.max(USUAL_ENTRY_BYTES, maxEntryBytes)

/** The keys not counted. */
export const wantedBytes = (bounds: Bounds): number =>
  bounds.maxBytes + bounds.keepSettledBytes + besideBytes(bounds)
