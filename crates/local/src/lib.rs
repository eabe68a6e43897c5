//! agentd-local
