// The folder in which the scripts of .ci/tools put what they fetch.
import { homedir } from 'node:os'
import { join } from 'node:path'

export const toolsFolder = process.env['AUDITFERRY_TOOLS'] ?? join(homedir(), '.cache', 'auditferry-tools')
