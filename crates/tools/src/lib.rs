//! agentd-tools
