// versitygw for the suites of this folder, if it is available here.
import { find } from './program.ts'
import { program, versitygwOf } from './versitygw-program.ts'
import type { VersitygwOptions } from './versitygw-program.ts'

export const foundVersitygw = await find(program)

export const versitygw = (options: VersitygwOptions): ReturnType<typeof versitygwOf> =>
  versitygwOf(foundVersitygw, options)
