// Bytes of ASCII by name, for whoever reads and writes text as bytes.

export const TAB = 9
export const LF = 10
export const CR = 13
export const SPACE = 32
export const QUOTE = 34
export const COMMA = 44
export const DASH = 45
export const DOT = 46
export const ZERO = 48
export const NINE = 57
export const COLON = 58
export const EQUALS = 61
export const QUESTION_MARK = 63
export const OPEN_ARRAY = 91
export const BACKSLASH = 92
export const CLOSE_ARRAY = 93
/** of an escape of four digits */
export const SMALL_U = 117
export const OPEN_OBJECT = 123
export const CLOSE_OBJECT = 125
export const DEL = 127
