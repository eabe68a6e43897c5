//! agentd-testkit
