// What is asked of a bucket, and what it answers, in our own words.

/** A body on the disk, or in memory where it is small. */
export interface Body {
  readonly bytes: number
  /** of the body, hex */
  readonly sha256: string
  read(): AsyncIterable<Uint8Array>
}

export interface PutOptions {
  readonly contentType: string
  /** epoch ms until which the object is locked; absent: not by us */
  readonly lockedUntil?: number | undefined
  /** Another checksum than the body's own: to see whether the server looks at it. */
  readonly claimedSha256?: string
}

/** `there`: the name was taken already. The rest is what the server said of what it did. */
export interface PutAnswer {
  readonly outcome: 'stored' | 'there'
  /** AES256, aws:kms or what else the server says */
  readonly encryption: string | undefined
  readonly kmsKeyId?: string | undefined
}

export interface Looked {
  readonly bytes: number
  readonly encryption: string | undefined
  readonly kmsKeyId: string | undefined
  readonly lockMode: string | undefined
  /** epoch ms */
  readonly lockedUntil: number | undefined
  /** base64, as the server keeps it */
  readonly sha256: string | undefined
}

export interface ListedObject {
  readonly key: string
  readonly bytes: number
}
