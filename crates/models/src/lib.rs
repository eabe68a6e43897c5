//! agentd-models
