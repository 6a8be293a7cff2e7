// undici without what nobody here asks for: fetch, caches, cookies, WebSockets and mocks are most of what its index loads at every start.
import api from 'undici/lib/api/index.js'
import Agent from 'undici/lib/dispatcher/agent.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'
import EnvHttpProxyAgent from 'undici/lib/dispatcher/env-http-proxy-agent.js'

// As its index does. All of them: the agent of a proxy asks by `connect`.
Object.assign(Dispatcher.prototype, api)

export { Agent, EnvHttpProxyAgent }
