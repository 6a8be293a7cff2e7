// Which configuration a command reads when it is told none, and the way into it.
import { existsSync } from 'node:fs'
import { readConfigFile, readTextFile } from '../../config/files.ts'
import type { References } from '../../config/references.ts'
import { ConnectorError } from '../../model/errors.ts'
import type { World } from './world.ts'

const inCheckout = './config/auditferry.yaml'
const installed = '/etc/auditferry/auditferry.yaml'

/** Throws ConnectorError `config_invalid` where there is none. */
export function configFile(world: World, given: string | undefined): string {
  const named = given ?? world.env['AUDITFERRY_CONFIG']
  if (named !== undefined && named !== '') return named
  if (existsSync(inCheckout)) return inCheckout
  if (!existsSync(installed))
    throw new ConnectorError(
      'config_invalid',
      `Neither --config nor $AUDITFERRY_CONFIG names a configuration, and neither ${inCheckout} nor ${installed} is there: begin with mkdir -p config && auditferry init > ${inCheckout.slice(2)}, fill it in, then auditferry validate`,
    )
  return installed
}

/** Where the configuration's references lead. */
export function references(world: World): References {
  return { env: world.env, readFile: readTextFile, readConfig: readConfigFile }
}
