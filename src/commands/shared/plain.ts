// Somebody else's text as a terminal may have it, by the name that commands know it by.
export { printable as plain } from '../../model/printable.ts'
