//! agentd-proto
