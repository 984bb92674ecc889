"""Host of many sessions (`tau serve`): sessions that outlive their clients, and any number of clients for each."""
