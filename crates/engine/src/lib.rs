//! agentd-engine
