"""What every part of lowering needs: scope, names, context, accumulators, workspaces."""
