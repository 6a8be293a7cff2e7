// The configuration of a `file` sink.
import { z } from 'zod'
import { size } from '../../core/units.ts'

export const options = z.strictObject({
  path: z
    .string()
    .min(1, 'expected the path of a file')
    .describe('The file to append to; it and its folders are created if missing.'),
  rotate: z
    .strictObject({
      max_bytes: size()
        .refine((bytes) => bytes >= 1, 'expected at least 1B')
        .prefault('256MiB')
        .describe('A batch that would exceed this begins a new file; a single batch may be larger.'),
      keep: z
        .int()
        .min(1)
        .max(10_000)
        .default(10)
        .describe(
          'How many full files are kept as `path.1` (the newest) to `path.N`; older ones are removed.',
        ),
    })
    .optional()
    .describe('When to begin a new file; without it the file grows until another program rotates it.'),
})

export type FileOptions = z.output<typeof options>
