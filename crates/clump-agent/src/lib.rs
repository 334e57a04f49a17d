//! clump-agent.
