// The planted bugs of the journal in PostgreSQL, as data: see planted-bugs-list.ts.
import type { PlantedBug } from './planted-bugs-list.ts'

const file = 'test/postgres/engine.test.ts'
const copies = 'test/postgres/copy.test.ts'
const epochs = 'is held by one process, and grows its epoch with each holder, also after a release'
const settings = 'settings of the role do not weaken a commit or its isolation, and it has no timeout'

export const postgresBugs: readonly PlantedBug[] = [
  {
    name: 'an earlier holder of a shard commits: no fence',
    invariant: '10: one fencing check in every write transaction',
    edits: [
      {
        file: 'src/journal/postgres/transactions.ts',
        find: 'if (found === undefined) throw this.#lease.lose(TAKEN)',
        replace: 'if (found === undefined) return',
      },
    ],
    tests: [
      {
        file,
        title:
          'an earlier holder of any kind changes nothing: each method that writes is refused, and then each other one',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'the epoch of a shard stays with its next holder',
    invariant: '10: the epoch grows with each holder of a shard',
    edits: [
      {
        file: 'src/journal/postgres/lease.ts',
        find: 'epoch = shard.epoch + 1',
        replace: 'epoch = shard.epoch',
      },
    ],
    tests: [{ file, title: epochs }],
    says: /AssertionError/,
  },
  {
    name: 'the epoch of a shard is reset when it is released',
    invariant: '10: the epoch of a shard is never reset',
    edits: [
      {
        file: 'src/journal/postgres/lease.ts',
        find: 'SET holder = NULL WHERE',
        replace: 'SET holder = NULL, epoch = 0 WHERE',
      },
    ],
    tests: [{ file, title: epochs }],
    says: /AssertionError/,
  },
  {
    name: 'a lease is trusted although the database did not renew it',
    invariant: '10: a holder trusts its lease no longer than its term',
    edits: [
      {
        file: 'src/journal/postgres/lease.ts',
        find: 'return beganAt + termMs - termMs / 10',
        replace: 'return beganAt + termMs * 10',
      },
    ],
    tests: [
      {
        file,
        title:
          'that cannot be renewed ends before the database says so, and every method refuses without asking',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a COMMIT without an answer counts as not stored',
    invariant: '1: a page is stored once, whatever becomes of the connection',
    edits: [
      {
        file: 'src/journal/postgres/transactions.ts',
        find: '    if (await this.#hasLanded()) return\n',
        replace: '',
      },
    ],
    tests: [
      { file, title: 'during the COMMIT, which landed: the call succeeds, and nothing is stored twice' },
    ],
    says: /AssertionError|ConnectorError/,
  },
  {
    name: 'the outcome of a COMMIT is looked up before it is known',
    invariant: '1: a page is stored once, whatever becomes of the connection',
    edits: [
      {
        file: 'src/journal/postgres/transactions.ts',
        find: 'WHERE id = $1 FOR UPDATE',
        replace: 'WHERE id = $1',
      },
    ],
    tests: [{ file, title: 'during the COMMIT, which reaches the server only then: the call waits for it' }],
    says: /AssertionError|ConnectorError/,
  },
  {
    name: 'the server cancels a COMMIT that takes long',
    invariant: '10: a COMMIT that waits for a standby is never cancelled',
    edits: [
      {
        file: 'src/journal/postgres/transactions.ts',
        find: `, set_config('statement_timeout', '0', true)`,
        replace: '',
      },
    ],
    tests: [{ file, title: settings }],
    says: /AssertionError/,
  },
  {
    name: 'a commit is as safe as the role has it',
    invariant: '10: PostgreSQL answers a commit when it is on disk',
    edits: [
      {
        file: 'src/journal/postgres/connection.ts',
        find: 'SET LOCAL synchronous_commit = on; ',
        replace: '',
      },
    ],
    tests: [{ file, title: settings }],
    says: /AssertionError/,
  },
  {
    name: 'confirmed transactions that a failover lost are not missed',
    invariant: '10: memory is never ahead of the database',
    edits: [
      {
        file: 'src/journal/postgres/transactions.ts',
        find: 'if (found.commits !== this.#commits + 1 || found.lastSeq !== this.lastSeq + added)',
        replace: 'if (found.commits < 0)',
      },
    ],
    tests: [
      {
        file,
        title: 'transactions that the database confirmed and lost: the journal is stale, and says why',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a copy gives the numbers of pruned entries to new ones',
    invariant: '3: nothing is dropped',
    edits: [
      {
        file: 'src/journal/copy/renumbering.ts',
        find: 'this.#begin = begin',
        replace: 'this.#begin = 0',
      },
    ],
    tests: [
      {
        file: copies,
        title: 'gives no new entry the number of an old dead letter, which would hide its own',
      },
    ],
    says: /differs from/,
  },
  {
    name: 'an interrupted copy is opened',
    invariant: '3: nothing is dropped',
    edits: [
      {
        file: 'src/journal/postgres/open.ts',
        find: 'if (rows.length > 0)',
        replace: 'if (rows.length > 1)',
      },
    ],
    tests: [
      {
        file: copies,
        title: 'that is interrupted is opened by nothing, until it is made again from the beginning',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a copy counts though the old journal was used meanwhile',
    invariant: '3: nothing is dropped',
    edits: [
      {
        file: 'src/journal/copy/copy.ts',
        find: 'await source.assertHeld()',
        replace: '',
      },
    ],
    tests: [
      { file: copies, title: 'is not used if another process had a shard of the old journal meanwhile' },
    ],
    says: /AssertionError/,
  },
  {
    name: 'workspaces with one key get two shards',
    invariant: '5: one rate limiter per key, across replicas',
    edits: [
      {
        file: 'src/journal/postgres/assignment.ts',
        find: 'shardOf(group, assigned) ?? fewest',
        replace: 'fewest',
      },
    ],
    tests: [
      {
        file: 'test/unit/journal/postgres/shards.test.ts',
        title: 'is that of a workspace with the same key, since they share a rate limit',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replica takes shards although another has fewer',
    invariant: '10: replicas hold equally many shards',
    edits: [
      {
        file: 'src/journal/postgres/balance.ts',
        find: ' && mine.size <= fewest',
        replace: '',
      },
    ],
    tests: [
      {
        file: 'test/unit/journal/postgres/shards.test.ts',
        title:
          'leads to shares that differ by at most one, from any start, with each shard moving at most once more than needed',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a lost shard ends the process',
    invariant: '10: a lost lease stops that shard only',
    edits: [
      {
        file: 'src/app/process.ts',
        find: `    if (!isYield(error)) {
      this.#failed`,
        replace: `    if (error) {
      this.#failed`,
      },
    ],
    tests: [
      {
        file: 'test/unit/app/process.test.ts',
        title: 'loses one shard and works on with the others; it takes it again when it is free',
      },
    ],
    says: /waited in vain/,
  },
  {
    name: 'a shard without a configured workspace is held by no replica',
    invariant: '3: what is pending of a workspace that left the configuration is delivered',
    edits: [
      {
        file: 'src/journal/postgres/replicas.ts',
        find: 'return new Map([...assigned, ...added])',
        replace: 'return new Map([...assigned, ...added].filter(([name]) => groups.flat().includes(name)))',
      },
    ],
    tests: [
      {
        file: 'test/postgres/process.test.ts',
        title:
          'one delivers what is pending of workspaces that left the configuration, each alone in its shard',
      },
    ],
    says: /waited in vain/,
  },
  {
    name: 'a request is not cut when its lease ends',
    invariant: '10: a lost lease stops that shard only',
    edits: [
      {
        file: 'src/app/app.ts',
        find: 'ended(journal.leaseEnd)',
        replace: 'ended(undefined)',
      },
    ],
    tests: [
      {
        file: 'test/postgres/process.test.ts',
        title:
          'one that its database does not answer cuts what it sends when its leases end, since others may send it then',
      },
    ],
    says: /waited in vain/,
  },
]
