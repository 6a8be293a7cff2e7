// Switches of the history area: what the specification leaves open there.
import type { SwitchTable } from './switch-spec.ts'

export const historySwitches = {
  history_unit: {
    values: ['s', 'ms'],
    default: 's',
    says: 'the unit of `start_time` and `end_time`',
  },
  history_end_time: {
    values: ['optional', 'required'],
    default: 'optional',
    says: 'may `end_time` be left out (it is now, then)',
  },
  history_future_end: {
    values: ['taken', 'refused'],
    default: 'taken',
    says: 'may `end_time` lie in the future, or is that a 400',
  },
  history_start: {
    values: ['inclusive', 'exclusive'],
    default: 'inclusive',
    says: 'is an event at `start_time` in the answer',
  },
  history_end: {
    values: ['exclusive', 'inclusive'],
    default: 'exclusive',
    says: 'is an event at `end_time` in the answer',
  },
  history_status: {
    values: ['200', '201'],
    default: '200',
    says: 'the status of success of the history area',
  },
  history_v2: {
    values: ['on', '404', '403'],
    default: 'on',
    says: 'is v2 of the history there, or what its paths answer',
  },
  history_v1_time: {
    values: ['on', 'off'],
    default: 'on',
    says: 'do rows of v1 carry `timestamp`',
  },
  history_order: {
    values: ['none', 'ascending'],
    default: 'none',
    says: 'the order of events in an answer; none: shuffled, each time in another way',
  },
  history_event_bytes: {
    values: 'number',
    default: 0,
    says: 'the least size of a response text, to make answers of gigabytes',
  },
  history_visible_after: {
    values: 'duration',
    default: 0,
    says: 'how long after its time an event is in the answers',
  },
  history_late_by: {
    values: 'duration',
    default: 86_400_000,
    says: 'the most that an event of the fault `history_late` is late',
  },
} as const satisfies SwitchTable
